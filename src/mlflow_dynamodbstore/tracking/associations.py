"""Which entities are associated with which, by their ids.

Traces name the runs and prompts that they are linked to, evaluation datasets their experiments; no
other entities are associated. Early links to traces that are still to come are not listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from mlflow.entities.entity_type import EntityAssociationType
from mlflow.store.entities.paged_list import PagedList
from mlflow.utils.search_utils import SearchUtils

from mlflow_dynamodbstore.evaluation.dataset_experiments import DatasetExperiments
from mlflow_dynamodbstore.evaluation.dataset_search import DatasetSearch
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.places import trace_place_of
from mlflow_dynamodbstore.shared.search.ordering import bad_token
from mlflow_dynamodbstore.traces.filters import parse_filter
from mlflow_dynamodbstore.traces.items import PROMPT_LINK, RUN_LINK
from mlflow_dynamodbstore.traces.lookup import TraceLookup
from mlflow_dynamodbstore.traces.search import TraceSearch

Ids = Iterable[str]

_TRACE, _DATASET = EntityAssociationType.TRACE, EntityAssociationType.EVALUATION_DATASET
_RUN, _PROMPT = EntityAssociationType.RUN, EntityAssociationType.PROMPT_VERSION
_EXPERIMENT = EntityAssociationType.EXPERIMENT


class EntityAssociations:
    """Finding entities by what they are associated with."""

    def __init__(
        self,
        experiment_lookup: ExperimentLookup,
        trace_lookup: TraceLookup,
        trace_search: TraceSearch,
        dataset_experiments: DatasetExperiments,
        dataset_search: DatasetSearch,
    ) -> None:
        self.experiment_lookup = experiment_lookup
        self.trace_lookup = trace_lookup
        self.trace_search = trace_search
        self.dataset_experiments = dataset_experiments
        self.dataset_search = dataset_search
        self._forward: Mapping[tuple[str, str], Callable[[list[str]], Ids]] = {
            (_TRACE, _RUN): lambda ids: self._linked(ids, RUN_LINK),
            (_TRACE, _PROMPT): lambda ids: self._linked(ids, PROMPT_LINK),
            (_DATASET, _EXPERIMENT): self._experiments_of,
        }
        self._reverse: Mapping[tuple[str, str], Callable[[list[str]], Ids]] = {
            (_RUN, _TRACE): lambda ids: self._traces_with("attribute.run_id", ids),
            (_PROMPT, _TRACE): lambda ids: self._traces_with("prompt", ids),
            (_EXPERIMENT, _DATASET): self._datasets_of,
        }

    def search_entities_by_source(
        self,
        source_ids: str | list[str],
        source_type: str,
        destination_type: str,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> PagedList[str]:
        find = self._forward.get((source_type, destination_type))
        return _page(find, source_ids, max_results, page_token)

    def search_entities_by_destination(
        self,
        destination_ids: str | list[str],
        destination_type: str,
        source_type: str,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> PagedList[str]:
        find = self._reverse.get((destination_type, source_type))
        return _page(find, destination_ids, max_results, page_token)

    def _linked(self, trace_ids: list[str], prefix: str) -> Ids:
        for item in self.trace_lookup.find_many(trace_ids).values():
            yield from (name[len(prefix) :] for name in sorted(item) if name.startswith(prefix))

    def _experiments_of(self, dataset_ids: list[str]) -> Ids:
        for dataset_id in dataset_ids:
            yield from self.dataset_experiments.get_dataset_experiment_ids(dataset_id)

    def _traces_with(self, name: str, ids: list[str]) -> Ids:
        experiment_ids = self.experiment_lookup.ids()
        for one in ids:
            quoted = one.replace("'", "''")
            wanted = parse_filter(f"{name} = '{quoted}'")
            found = self.trace_search.matching_traces(experiment_ids, wanted)
            yield from sorted(trace_place_of(trace.item).trace_id for trace in found)

    def _datasets_of(self, experiment_ids: list[str]) -> Ids:
        token: str | None = None
        while True:
            found = self.dataset_search.search_datasets(experiment_ids, page_token=token)
            yield from sorted(dataset.dataset_id for dataset in found)
            if not (token := found.token):
                return


def _page(
    find: Callable[[list[str]], Ids] | None,
    ids: str | list[str],
    max_results: int | None,
    page_token: str | None,
) -> PagedList[str]:
    offset = _offset(page_token)
    wanted = [ids] if isinstance(ids, str) else list(ids)
    found = [] if find is None else list(dict.fromkeys(find(wanted)))
    end = len(found) if max_results is None else offset + max_results
    # MLflow makes bytes of it; every other token is text.
    token = SearchUtils.create_page_token(end).decode() if end < len(found) else None
    return PagedList(found[offset:end], token)


def _offset(page_token: str | None) -> int:
    """How many results the pages before have shown; raises for a token that is not ours."""
    try:
        offset = SearchUtils.parse_start_offset_from_page_token(page_token)
    except (AttributeError, TypeError, ValueError) as error:
        raise bad_token("is not one of this search") from error
    if type(offset) is not int or offset < 0:
        raise bad_token("is not one of this search")
    return offset
