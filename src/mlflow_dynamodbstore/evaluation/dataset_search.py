"""Searching evaluation datasets.

Ids of datasets sort by creation time, and so do the entries of a workspace and the links of an
experiment. A search with the newest first, which is what the UI lists, therefore reads only as far
as the page needs. Any other order reads all datasets and sorts them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from mlflow.entities import EvaluationDataset
from mlflow.store.entities.paged_list import PagedList
from mlflow.utils.search_utils import SearchEvaluationDatasetsUtils as Utils

from mlflow_dynamodbstore.evaluation.dataset_items import TaggedDataset
from mlflow_dynamodbstore.evaluation.dataset_reader import DatasetReader
from mlflow_dynamodbstore.keys import evaluation_datasets as dataset_keys
from mlflow_dynamodbstore.keys.access import workspace_pk
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.keys.experiments import experiment_pk
from mlflow_dynamodbstore.mlflow_compat.search import parse_search_filter
from mlflow_dynamodbstore.mlflow_compat.validation import parse_experiment_ids
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE, TAG, Comparison, all_hold
from mlflow_dynamodbstore.shared.search.ordering import Ordering, Position, SortKey
from mlflow_dynamodbstore.shared.search.pages import in_order, page, validate_max_results
from mlflow_dynamodbstore.shared.search.streams import side_by_side
from mlflow_dynamodbstore.table.contract import MAX_BATCH_GET, Query

_NEWEST_FIRST = Ordering(
    (
        SortKey(ATTRIBUTE, "created_time", ascending=False),
        SortKey(ATTRIBUTE, "dataset_id", ascending=False),
    )
)
_TEXT_COMPARATORS = ("=", "!=", "LIKE", "ILIKE")


class DatasetSearch:
    """The search of evaluation datasets."""

    def __init__(
        self, context: Context, experiment_lookup: ExperimentLookup, dataset_reader: DatasetReader
    ) -> None:
        self.context = context
        self.table = context.table
        self.experiment_lookup = experiment_lookup
        self.dataset_reader = dataset_reader

    def search_datasets(
        self,
        experiment_ids: list[str] | None = None,
        filter_string: str | None = None,
        max_results: int = 1000,
        order_by: list[str] | None = None,
        page_token: str | None = None,
    ) -> PagedList[EvaluationDataset]:
        validate_max_results(max_results)
        holds = all_hold(_comparisons(filter_string))
        ordering = _ordering(order_by)
        after = ordering.after(page_token)
        newest_first = ordering == _NEWEST_FIRST
        ids = self._ids(experiment_ids, after if newest_first else None)
        rows: Iterator[TaggedDataset] = filter(holds, self._read(ids))
        if not newest_first:
            rows = iter(in_order(list(rows), ordering))
        found, token = page(rows, ordering, after, max_results)
        return PagedList(self.dataset_reader.to_entities(found), token)

    def _ids(self, experiment_ids: Sequence[str] | None, after: Position | None) -> Iterator[str]:
        """The ids of datasets, newest first."""
        entries = dataset_keys.DATASETS
        if after is not None:
            entries = dataset_keys.dataset_entries_before(str(after[-1][1]))
        if experiment_ids:
            numbers = dict.fromkeys(parse_experiment_ids(list(experiment_ids)))
            own = filter(self.experiment_lookup.is_in_workspace, map(str, numbers))
            partitions = list(map(experiment_pk, own))
        else:
            partitions = [workspace_pk(self.context.workspace())]
        listed = [self._listed_in(pk, entries) for pk in partitions]
        streams = side_by_side(self.table, listed, MAX_BATCH_GET)
        return (one for one, _ in groupby(heapq.merge(*streams, reverse=True)))

    def _listed_in(self, pk: str, entries: Range) -> Iterator[list[str]]:
        query = Query(pk, where=entries.on(), descending=True, limit=MAX_BATCH_GET, keys_only=True)
        return (
            [str(dataset_keys.dataset_entry_of(str(item["SK"]))) for item in items]
            for items in self.table.pages(query)
        )

    def _read(self, dataset_ids: Iterator[str]) -> Iterator[TaggedDataset]:
        for some in batched(dataset_ids, MAX_BATCH_GET):
            yield from self.dataset_reader.with_tags(self.dataset_reader.find_many(some))


def _comparisons(filter_string: str | None) -> list[Comparison]:
    """The comparisons of a filter, read by MLflow's own parser with its errors."""
    terms = parse_search_filter(Utils, filter_string) if filter_string else []
    return [_comparison(**term) for term in terms]


def _comparison(type: str, key: str, comparator: str, value: Any) -> Comparison:  # noqa: A002
    if type == TAG:
        _check("tag", comparator, comparator in _TEXT_COMPARATORS)
    elif key in Utils.NUMERIC_ATTRIBUTES:
        allowed = comparator in Utils.VALID_NUMERIC_ATTRIBUTE_COMPARATORS
        _check("numeric attribute", comparator, allowed)
        value = _whole_number(key, value)
    else:
        # MLflow does not refuse order comparisons of texts.
        listed = key == "name" and comparator == "IN"
        known = comparator in Utils.VALID_STRING_ATTRIBUTE_COMPARATORS
        allowed = comparator in _TEXT_COMPARATORS or listed or not known
        _check("string attribute", comparator, allowed)
    return Comparison(type, key, comparator, value)


def _check(what: str, comparator: str, allowed: bool) -> None:
    if not allowed:
        raise invalid(f"Invalid comparator for {what}: {comparator}")


def _whole_number(key: str, value: Any) -> int:
    try:
        return int(str(value))
    except ValueError as error:
        raise invalid(f"Invalid value for numeric attribute '{key}': {str(value)!r}") from error


def _ordering(order_by: Sequence[str] | None) -> Ordering:
    sort_keys = []
    for order in order_by or ["created_time DESC"]:
        kind, name, ascending = Utils.parse_order_by_for_search_evaluation_datasets(order)
        if kind != ATTRIBUTE:
            raise invalid(f"Invalid order_by entity: {kind}")
        sort_keys.append(SortKey(kind, name, ascending))
    return Ordering((*sort_keys, SortKey(ATTRIBUTE, "dataset_id", ascending=False)))
