"""Searching models and versions.

Candidates come from consistent reads only: names from the guards of the workspace, a model from
its META, versions from the partition of their model or, by run, from the links of that run. The
filter is applied here to what was read. An order by name is streamed: a page costs what it shows.
Any other order reads all candidates first.

A model that is renamed during a search may be listed under its old name and gone when it is read.
Then the search starts again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TypeVar

from mlflow.entities.model_registry import ModelVersion, RegisteredModel
from mlflow.store.entities.paged_list import PagedList
from mlflow.store.model_registry import (
    SEARCH_MODEL_VERSION_MAX_RESULTS_DEFAULT,
    SEARCH_MODEL_VERSION_MAX_RESULTS_THRESHOLD,
    SEARCH_REGISTERED_MODEL_MAX_RESULTS_DEFAULT,
    SEARCH_REGISTERED_MODEL_MAX_RESULTS_THRESHOLD,
)

from mlflow_dynamodbstore.keys import registry as registry_keys
from mlflow_dynamodbstore.registry.items import RegisteredModelPlace, linked_version, listed_meta
from mlflow_dynamodbstore.registry.model_reader import ModelReader
from mlflow_dynamodbstore.registry.records import Model, Version, read_with_versions
from mlflow_dynamodbstore.registry.search_terms import (
    MODELS,
    RUN_ID,
    ModelFilter,
    model_filter,
    model_ordering,
    version_filter,
    version_ordering,
)
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.names.attributes import NAME
from mlflow_dynamodbstore.shared.names.search import Listed, Names
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.search.filters import all_hold
from mlflow_dynamodbstore.shared.search.name_index import NameIndex
from mlflow_dynamodbstore.shared.search.ordering import position_after
from mlflow_dynamodbstore.shared.search.pages import groups_in_order, page
from mlflow_dynamodbstore.table.contract import Query

T = TypeVar("T")
Row = TypeVar("Row", Model, Version)

MODELS_AT_ONCE = 500
PARTITIONS_AT_ONCE = 16
MOST_BY_INDEX = 50
"""More names than this are listed: reading one model costs as much as listing dozens."""
TRIES = 5
LEAST_GUARDS = 50
"""Prompts are listed among the models, so a page of fewer might show nothing."""


class Vanished(Exception):
    """A model or version that was listed is gone."""


class RegistrySearch:
    """Finding models and versions by filters."""

    def __init__(self, context: Context, reader: ModelReader, name_index: NameIndex) -> None:
        self.context = context
        self.table = context.table
        self.reader = reader
        self.models = reader.models
        self.name_index = name_index

    def search_registered_models(
        self,
        filter_string: str | None = None,
        max_results: int = SEARCH_REGISTERED_MODEL_MAX_RESULTS_DEFAULT,
        order_by: list[str] | None = None,
        page_token: str | None = None,
    ) -> PagedList[RegisteredModel]:
        _check_at_most(SEARCH_REGISTERED_MODEL_MAX_RESULTS_THRESHOLD, max_results)
        wanted = model_filter(filter_string)
        ordering = model_ordering(tuple(order_by or ()))
        after = position_after(ordering, page_token)
        if max_results < 1:
            return PagedList([], None)

        def search(strict: bool, by_index: bool) -> PagedList[RegisteredModel]:
            size = min(max_results + 1, MODELS_AT_ONCE)
            by_name = ordering.keys[0].name == NAME
            names = self._names(wanted, by_index, max(size, LEAST_GUARDS) if by_name else None)
            chunks = batched(names.entries(ordering, after), size)
            groups = (self._matching(chunk, wanted, strict) for chunk in chunks)
            found, token = page(
                groups_in_order(groups, ordering, NAME), ordering, after, max_results
            )
            return PagedList(self._entities(found, strict), token)

        return _found_by(search)

    def _matching(self, names: list[Listed], wanted: ModelFilter, strict: bool) -> list[Model]:
        """The models of these names that satisfy a filter."""
        workspace = self.context.workspace()
        places = {RegisteredModelPlace(name, workspace): guard for name, guard in names}
        repeated = {
            place: Model(place, meta)
            for place, guard in places.items()
            if guard is not None and (meta := listed_meta(guard, place.name)) is not None
        }
        metas = self.table.get_many(place.key for place in places if place not in repeated)
        found = [
            repeated.get(place) or self.models.seen(place, metas.get(place.key)) for place in places
        ]
        if strict and None in found and wanted.exact(NAME) is None:
            raise Vanished
        models = [m for m in found if m is not None and (wanted.prompts or not m.is_prompt)]
        if wanted.has_tags:
            models = self.reader.with_long_tags(models)
        return list(filter(all_hold(wanted.terms), models))

    def _entities(self, models: list[Model], strict: bool) -> list[RegisteredModel]:
        versions = self.reader.versions_of_many((model, model.latest.values()) for model in models)
        if strict and len(versions) < sum(len({*model.latest.values()}) for model in models):
            raise Vanished
        latest: dict[RegisteredModelPlace, list[Version]] = {}
        for (place, _), version in versions.items():
            latest.setdefault(place, []).append(version)
        return [m.entity(latest.get(m.place, [])) for m in self.reader.with_long_tags(models)]

    # --- versions -------------------------------------------------------------------------------

    def search_model_versions(
        self,
        filter_string: str | None = None,
        max_results: int = SEARCH_MODEL_VERSION_MAX_RESULTS_DEFAULT,
        order_by: list[str] | None = None,
        page_token: str | None = None,
    ) -> PagedList[ModelVersion]:
        if not isinstance(max_results, int) or max_results < 1:
            raise invalid(
                "Invalid value for max_results. It must be a positive integer, "
                f"but got {max_results}"
            )
        _check_at_most(SEARCH_MODEL_VERSION_MAX_RESULTS_THRESHOLD, max_results)
        wanted = version_filter(filter_string)
        ordering = version_ordering(tuple(order_by or ()))
        after = position_after(ordering, page_token)

        def search(strict: bool, by_index: bool) -> PagedList[ModelVersion]:
            run_ids = wanted.exact(RUN_ID)
            if run_ids is not None:
                groups: Iterable[list[Version]] = [self._versions_of_runs(run_ids, wanted, strict)]
            else:
                names = self._names(wanted, by_index).listed(ordering, after)
                groups = self._versions_by_model(names, wanted, strict)
            holds = all_hold(wanted.terms)
            matching = (list(filter(holds, group)) for group in groups)
            found, token = page(
                groups_in_order(matching, ordering, NAME), ordering, after, max_results
            )
            return PagedList([version.entity() for version in found], token)

        return _found_by(search)

    def _versions_by_model(
        self, names: Iterator[str], wanted: ModelFilter, strict: bool
    ) -> Iterator[list[Version]]:
        """The versions of models of these names, model by model."""
        workspace = self.context.workspace()
        for chunk in batched(names, PARTITIONS_AT_ONCE):
            places = [RegisteredModelPlace(name, workspace) for name in chunk]
            read = self.table.map(lambda place: read_with_versions(self.table, place), places)
            for place, (meta, versions) in zip(places, read, strict=True):
                model = self.models.seen(place, meta)
                if model is not None:
                    yield versions if wanted.prompts or not model.prompt_versions else []
                elif strict and wanted.exact(NAME) is None:
                    raise Vanished

    def _versions_of_runs(
        self, run_ids: list[str], wanted: ModelFilter, strict: bool
    ) -> list[Version]:
        """The versions that runs produced."""
        workspace = self.context.workspace()
        partitions = [registry_keys.model_run_pk(run_id, workspace) for run_id in run_ids]
        links = self.table.map(lambda pk: list(self.table.items(Query(pk))), partitions)
        numbers: dict[RegisteredModelPlace, list[int]] = {}
        for name, number in map(linked_version, chain.from_iterable(links)):
            numbers.setdefault(RegisteredModelPlace(name, workspace), []).append(number)
        metas = self.table.get_many(place.key for place in numbers)
        models = [self.models.seen(place, metas.get(place.key)) for place in numbers]
        found = [m for m in models if m and (wanted.prompts or not m.prompt_versions)]
        versions = self.reader.versions_of_many((model, numbers[model.place]) for model in found)
        if strict and (None in models or len(versions) < sum(len(numbers[m.place]) for m in found)):
            raise Vanished
        return list(versions.values())

    def _names(self, wanted: ModelFilter, by_index: bool, shown: int | None = None) -> Names:
        """The names to look at, from the name index where it lists few enough.

        ``shown`` is how many names suffice where they come in order and none is left out.
        """
        workspace, known = self.context.workspace(), None
        if by_index and wanted.needs_list_of_names:
            known = self.name_index.ids_having(workspace, wanted.on(NAME))
        few = known if known is not None and len(known) <= MOST_BY_INDEX else None
        return Names(self.table, workspace, wanted, MODELS, few, shown)


def _found_by(search: Callable[[bool, bool], T]) -> T:
    """What a search finds when nothing vanishes during it; the last try takes what there is.

    The name index may list a model that is gone, so it is used for the first try only.
    """
    by_index = True
    for _ in range(TRIES - 1):
        try:
            return search(True, by_index)
        except Vanished:
            by_index = False
    return search(False, by_index)


def _check_at_most(limit: int, max_results: int) -> None:
    if max_results > limit:
        raise invalid(
            "Invalid value for request parameter max_results. It must be at most "
            f"{limit}, but got value {max_results}"
        )
