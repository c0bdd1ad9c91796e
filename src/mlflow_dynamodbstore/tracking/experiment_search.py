"""Reading and searching experiments.

A search reads the entries of the workspace (all, or those with one name or with a prefix), filters
and sorts them, and then reads the experiments of one page. A filter on the end or on words of names
makes it read the experiments that an index names instead. Only a filter on tags makes it read every
experiment that matches the other terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mlflow.entities import Experiment, ViewType
from mlflow.entities.lifecycle_stage import LifecycleStage
from mlflow.store.entities.paged_list import PagedList
from mlflow.store.tracking import SEARCH_MAX_RESULTS_DEFAULT
from mlflow.utils.search_utils import SearchExperimentsUtils

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.mlflow_compat.search import parse_search_filter
from mlflow_dynamodbstore.mlflow_compat.validation import parse_experiment_id, parse_experiment_ids
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_items import (
    LONG_TAGS,
    ExperimentEntry,
    Tags,
    all_tags,
    experiment_entity,
    inline_tags,
)
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE, TAG, Comparison, all_hold
from mlflow_dynamodbstore.shared.search.like import fixed_prefix, fixed_suffix
from mlflow_dynamodbstore.shared.search.name_index import NameIndex
from mlflow_dynamodbstore.shared.search.ordering import Ordering, SortKey
from mlflow_dynamodbstore.shared.search.pages import in_order, page, validate_max_results
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.tracking.reversed_names import ReversedNames
from mlflow_dynamodbstore.tracking.workspace_mode import WorkspaceMode

DEFAULT_ORDER = ("creation_time DESC", "experiment_id ASC")


@dataclass(frozen=True)
class ExperimentQuery:
    """A search, parsed."""

    comparisons: tuple[Comparison, ...]
    ordering: Ordering
    stages: frozenset[str]

    def on(self, kind: str) -> list[Comparison]:
        """The comparisons of attributes, or of tags."""
        return [comparison for comparison in self.comparisons if comparison.kind == kind]

    @property
    def ids(self) -> list[str] | None:
        """The only experiments that can match, when the filter names them by their ids."""
        for comparison in self._of("experiment_id"):
            if comparison.comparator in ("=", "IN"):
                value = comparison.value
                return [str(n) for n in (value if isinstance(value, tuple) else (value,))]
        return None

    @property
    def name(self) -> str | None:
        """The only name that can match, when the filter has one."""
        return next((str(c.value) for c in self._of("name") if c.comparator == "="), None)

    @property
    def on_name(self) -> list[Comparison]:
        """The comparisons of the name."""
        return self._of("name")

    @property
    def name_prefix(self) -> str:
        """The prefix of every name that can match."""
        patterns = [str(c.value) for c in self._of("name") if c.comparator == "LIKE"]
        return max(map(fixed_prefix, patterns), key=len, default="")

    @property
    def name_suffix(self) -> str:
        """The end of every name that can match."""
        patterns = [str(c.value) for c in self._of("name") if c.comparator == "LIKE"]
        return max(map(fixed_suffix, patterns), key=len, default="")

    def _of(self, name: str) -> list[Comparison]:
        return [comparison for comparison in self.on(ATTRIBUTE) if comparison.name == name]


class ExperimentSearch:
    """Getting, finding and listing experiments."""

    def __init__(
        self,
        context: Context,
        experiment_lookup: ExperimentLookup,
        experiment_names: NameIndex,
        reversed_names: ReversedNames,
        workspace_mode: WorkspaceMode,
    ) -> None:
        self.context = context
        self.table = context.table
        self.experiment_lookup = experiment_lookup
        self.experiment_names = experiment_names
        self.reversed_names = reversed_names
        self.workspace_mode = workspace_mode

    def get_experiment(self, experiment_id: str | int) -> Experiment:
        return self._experiments([self.experiment_lookup.get(experiment_id)])[0]

    def get_experiment_by_name(self, experiment_name: str) -> Experiment | None:
        guard_key = access_keys.experiment_name_guard(experiment_name, self.context.workspace())
        # A second time if the experiment was renamed or removed between the two reads.
        for _ in range(2):
            guard = self.table.get(guard_key)
            if guard is None:
                return None
            meta = self.table.get(ExperimentEntry.of(guard).key)
            if meta is not None and meta["name"] == experiment_name:
                self.experiment_lookup.note(meta)
                return self._experiments([meta])[0]
        return None

    def search_experiments(
        self,
        view_type: int = ViewType.ACTIVE_ONLY,
        max_results: int | None = SEARCH_MAX_RESULTS_DEFAULT,
        filter_string: str | None = None,
        order_by: Sequence[str] | None = None,
        page_token: str | None = None,
    ) -> PagedList[Experiment]:
        validate_max_results(max_results)
        query = parse_experiment_query(filter_string, order_by, view_type)
        after = query.ordering.after(page_token)
        rows = in_order(self._matching(query), query.ordering)
        found, token = page(iter(rows), query.ordering, after, max_results)
        metas = self._metas_of(found)
        # One that was deleted or restored since its entry was read is left out.
        shown = [meta for meta in metas if meta["lifecycle"] in query.stages]
        return PagedList(self._experiments(shown), token)

    def filter_active_experiment_ids(self, experiment_ids: Sequence[str | int]) -> list[str]:
        wanted = [str(number) for number in parse_experiment_ids(list(experiment_ids))]
        return [
            experiment_id_of(meta)
            for meta in self._own_metas(wanted)
            if meta["lifecycle"] == LifecycleStage.ACTIVE
        ]

    # --- reading --------------------------------------------------------------------------------

    def _matching(self, query: ExperimentQuery) -> list[ExperimentEntry]:
        """The experiments that a query matches, in no order."""
        holds, entries = all_hold(query.on(ATTRIBUTE)), self._candidates(query)
        found = [entry for entry in entries if entry.lifecycle in query.stages and holds(entry)]
        if not query.on(TAG):
            return found
        tags = self._tags(self._metas_of(found))
        for entry in found:
            entry.tags = tags.get(entry.key, {})
        tagged = all_hold(query.on(TAG))
        return [entry for entry in found if tagged(entry)]

    def _candidates(self, query: ExperimentQuery) -> Iterable[ExperimentEntry]:
        if query.ids is not None:
            return [ExperimentEntry.of_meta(meta) for meta in self._own_metas(query.ids)]
        workspace = self.context.workspace()
        if query.name is not None:
            guard = self.table.get(access_keys.experiment_name_guard(query.name, workspace))
            return [] if guard is None else [ExperimentEntry.of(guard)]
        if not query.name_prefix and (found := self._indexed(workspace, query)) is not None:
            return [ExperimentEntry.of_meta(meta) for meta in self._own_metas(sorted(found))]
        return self._entries(workspace, query)

    def _entries(self, workspace: str, query: ExperimentQuery) -> list[ExperimentEntry]:
        """The entries of a workspace whose names may have the prefix that a search asks for."""
        names = access_keys.experiment_names_starting(query.name_prefix)
        listed = Query(access_keys.workspace_pk(workspace), where=names.on())
        guards = list(self.table.items(listed))
        if query.name_suffix and not query.name_prefix:
            self.reversed_names.check(workspace, guards)
        return [ExperimentEntry.of(guard) for guard in guards]

    def _indexed(self, workspace: str, query: ExperimentQuery) -> set[str] | None:
        """The experiments whose names an index finds; None when no index can tell."""
        found = None
        if query.name_suffix:
            found = self.reversed_names.ids_ending(workspace, query.name_suffix)
        if found is None:
            found = self.experiment_names.ids_having(workspace, query.on_name)
        return found

    def _metas_of(self, entries: Sequence[ExperimentEntry]) -> list[Item]:
        """The experiments that entries stand for, without those removed meanwhile."""
        read = self.table.get_many(entry.key for entry in entries if entry.meta is None)
        for entry in entries:
            entry.meta = entry.meta or read.get(entry.key)
        return [entry.meta for entry in entries if entry.meta is not None]

    def _own_metas(self, experiment_ids: Iterable[str]) -> list[Item]:
        """The experiments of these ids that the active workspace has, in the order given."""
        workspace = self.context.workspace()
        wanted = dict.fromkeys(experiment_keys.experiment_key(number) for number in experiment_ids)
        found = self.table.get_many(wanted)
        return [found[k] for k in wanted if k in found and found[k]["workspace"] == workspace]

    def _tags(self, metas: Sequence[Item]) -> dict[Key, Tags]:
        """The tags of experiments; those with long tags cost a read each, side by side."""
        plain = [meta for meta in metas if LONG_TAGS not in meta]
        long = [meta for meta in metas if LONG_TAGS in meta]
        tags = [inline_tags(meta) for meta in plain]
        tags += self.table.map(lambda meta: all_tags(self.table, meta), long)
        key_of = self.table.schema.key_of
        return {key_of(meta): own for meta, own in zip(plain + long, tags, strict=True)}

    def _experiments(self, metas: Sequence[Item]) -> list[Experiment]:
        """Experiments as MLflow shows them."""
        retention = self.workspace_mode.trace_retention()
        tags = self._tags(metas)
        experiments = []
        for meta in metas:
            own = tags[self.table.schema.key_of(meta)]
            kept = retention.of(experiment_id_of(meta), own) if retention else None
            experiments.append(experiment_entity(meta, own, kept))
        return experiments


# --- parsing ------------------------------------------------------------------------------------


def parse_experiment_query(
    filter_string: str | None, order_by: Sequence[str] | None, view_type: int
) -> ExperimentQuery:
    """A search in MLflow's words, with MLflow's own parsers and their errors."""
    return ExperimentQuery(
        comparisons=tuple(
            _comparison(**term)
            for term in parse_search_filter(SearchExperimentsUtils, filter_string)
        ),
        ordering=_ordering(order_by),
        stages=frozenset(LifecycleStage.view_type_to_stages(view_type)),
    )


def _comparison(type: str, key: str, comparator: str, value: Any) -> Comparison:  # noqa: A002
    """One term, refused where MLflow refuses it."""
    if type == TAG:
        _check("tag", comparator, SearchExperimentsUtils.VALID_TAG_COMPARATORS)
    elif key == "experiment_id":
        _check(key, comparator, {"=", "!=", "IN", "NOT IN"})
        several = isinstance(value, tuple)
        value = tuple(map(parse_experiment_id, value)) if several else parse_experiment_id(value)
    elif SearchExperimentsUtils.is_numeric_attribute(type, key, comparator):
        if not isinstance(value, int):
            raise invalid(f"Invalid value for numeric attribute '{key}': {str(value)!r}")
    elif SearchExperimentsUtils.is_string_attribute(type, key, comparator):
        _check("string attribute", comparator, {"=", "!=", "LIKE", "ILIKE"})
    return Comparison(type, key, comparator, value)


def _check(what: str, comparator: str, allowed: set[str]) -> None:
    if comparator not in allowed:
        raise invalid(f"Invalid comparator for {what}: {comparator}")


def _ordering(order_by: Sequence[str] | None) -> Ordering:
    parsed = map(
        SearchExperimentsUtils.parse_order_by_for_search_experiments, order_by or DEFAULT_ORDER
    )
    sort_keys = []
    for kind, name, ascending in parsed:
        if kind != ATTRIBUTE:
            raise invalid(f"Invalid order_by entity: {kind}")
        sort_keys.append(SortKey(kind, name, ascending))
    if not any(key.name == "experiment_id" for key in sort_keys):
        sort_keys.append(SortKey(ATTRIBUTE, "experiment_id", ascending=False))
    return Ordering(tuple(sort_keys))
