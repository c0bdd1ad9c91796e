"""Searching runs: MLflow's filter language over the access paths of this package."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace

from mlflow.entities import Run
from mlflow.entities.lifecycle_stage import LifecycleStage
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from mlflow.store.tracking import SEARCH_MAX_RESULTS_THRESHOLD
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME
from mlflow.utils.search_utils import SearchUtils

from mlflow_dynamodbstore.mlflow_compat.search import parse_search_filter
from mlflow_dynamodbstore.mlflow_compat.validation import parse_experiment_ids
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.lookup_entries import LookupEntries
from mlflow_dynamodbstore.shared.policies import Policies, Rules
from mlflow_dynamodbstore.shared.search.filters import (
    ATTRIBUTE,
    DATASET,
    METRIC,
    TAG,
    Comparison,
    all_hold,
)
from mlflow_dynamodbstore.shared.search.ordering import Ordering, Position, SortKey
from mlflow_dynamodbstore.shared.search.pages import (
    in_order,
    page,
    rows_after,
    sort_groups,
    validate_max_results,
    with_others,
)
from mlflow_dynamodbstore.shared.search.streams import VolumeStreams, likely_share
from mlflow_dynamodbstore.shared.volume_states import Span, Volume
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.tracking.inputs import datasets_of
from mlflow_dynamodbstore.tracking.records import RunRecord
from mlflow_dynamodbstore.tracking.run_search.experiment_runs import (
    ExperimentRuns,
    PathTooExpensive,
    ResealedDuringRead,
)
from mlflow_dynamodbstore.tracking.run_search.path_choice import Choice, choose
from mlflow_dynamodbstore.tracking.run_search.paths import (
    START_TIME,
    Entries,
    Path,
)
from mlflow_dynamodbstore.tracking.run_search.plans import OptionalIndexes, Plans, plans
from mlflow_dynamodbstore.tracking.run_search.rank_paths import ByMetric
from mlflow_dynamodbstore.tracking.run_search.summary_prefilter import prefilters
from mlflow_dynamodbstore.tracking.run_search.words import read_words

forced_path: ContextVar[str | None] = ContextVar("forced_path", default=None)
"""Name of the path to use wherever it can answer; for tests and ``explain``."""


@dataclass(frozen=True)
class RunQuery:
    """A search, parsed."""

    comparisons: tuple[Comparison, ...]
    ordering: Ordering
    stages: frozenset[str]
    indexes: OptionalIndexes = OptionalIndexes()  # noqa: RUF009 - frozen

    def plans(self) -> Plans:
        """The paths that can answer."""
        one_stage = len(self.stages) == 1
        return plans(self.comparisons, self.ordering, self.indexes, one_stage=one_stage)

    def runs(
        self, table: Table, volumes: Sequence[Volume], batch: int, rules: Rules
    ) -> ExperimentRuns:
        """The runs in volumes of an experiment; those that cannot match are not unpacked."""
        is_period = all((c.kind, c.name) == (ATTRIBUTE, START_TIME) for c in self.comparisons)
        return ExperimentRuns(
            table,
            tuple(volumes),
            self.stages,
            batch,
            rules,
            prefilters(self.comparisons),
            None if is_period else all_hold(self.comparisons),
        )

    def choice(self, runs: ExperimentRuns) -> Choice:
        """The path to read: the forced one where it can answer, or the one that reads least."""
        able = self.plans()
        for path in able.all():
            if path.name == forced_path.get():
                return Choice(path)
        return choose(runs, able, len(self.comparisons))


class RunSearch:
    """Search over runs."""

    def __init__(
        self, context: Context, experiment_lookup: ExperimentLookup, lookup_entries: LookupEntries
    ) -> None:
        self.lookup_entries = lookup_entries
        self.table = context.table
        self.policies = context.policies
        self.experiment_lookup = experiment_lookup

    def search_runs(
        self,
        experiment_ids: Sequence[str],
        filter_string: str | None,
        run_view_type: int,
        max_results: int | None,
        order_by: Sequence[str] | None,
        page_token: str | None,
    ) -> tuple[list[Run], str | None]:
        validate_max_results(max_results, allow_null=True)
        query = parse_run_query(filter_string, order_by, run_view_type)
        after = query.ordering.after(page_token)
        numbers = dict.fromkeys(parse_experiment_ids(list(experiment_ids)))
        volumes = self.policies.beside(lambda: self._volumes(map(str, numbers)))
        if not volumes:
            return [], None
        query = self._with_indexes(query)
        rows = self._rows(query, volumes, after, max_results)
        records, token = page(rows, query.ordering, after, max_results)
        datasets = datasets_of(self.table, records)
        return [record.to_entity(datasets) for record in records], token

    def _volumes(self, experiment_ids: Iterable[str]) -> list[Volume]:
        """The volumes of those experiments that belong to the active workspace."""
        lookup = self.experiment_lookup
        return lookup.volumes.of([one for one in experiment_ids if lookup.is_in_workspace(one)])

    def _with_indexes(self, query: RunQuery) -> RunQuery:
        return replace(query, indexes=optional_indexes(self.policies))

    def _rows(
        self,
        query: RunQuery,
        volumes: Sequence[Volume],
        after: Position | None,
        max_results: int | None,
    ) -> Iterator[RunRecord]:
        """The matching runs in order, read as far as they are asked for."""
        streams: VolumeStreams[RunRecord] = VolumeStreams(query.ordering, START_TIME, after)
        groups = self._read_together(volumes, streams)
        want = (max_results or SEARCH_MAX_RESULTS_THRESHOLD) + 2
        batch = likely_share(want, len(groups))
        rules = self.policies.sealing_rules()
        queries = self._with_datasets(query, volumes)
        searched = [query.runs(self.table, some, batch, rules) for some, _ in groups]
        read_words(searched, query.plans())
        for runs, (some, span) in zip(searched, groups, strict=True):
            stream = run_stream(runs, queries.get(some[0].experiment_id, query), after)
            streams.add(stream, span)
        return streams.merged(self.table, want)

    def _read_together(
        self, volumes: Sequence[Volume], streams: VolumeStreams[RunRecord]
    ) -> list[tuple[list[Volume], Span | None]]:
        """The volumes of each experiment, and on their own, with their spans, those that wait."""
        known = self.experiment_lookup.volumes
        at_once: dict[str, list[Volume]] = {}
        waiting: list[tuple[list[Volume], Span | None]] = []
        for volume in volumes:
            span = known.state(volume).runs
            if streams.has_passed(span):
                continue
            if streams.can_wait(span):
                waiting.append(([volume], span))
            else:
                at_once.setdefault(volume.experiment_id, []).append(volume)
        return [*((volumes, None) for volumes in at_once.values()), *waiting]

    def _with_datasets(self, query: RunQuery, volumes: Sequence[Volume]) -> dict[str, RunQuery]:
        """The query for the experiments whose uses of datasets are indexed, if it asks for one."""
        if not any((c.kind, c.name) == (DATASET, "digest") for c in query.comparisons):
            return {}
        indexed = replace(query, indexes=replace(query.indexes, datasets=True))
        experiment_ids = dict.fromkeys(volume.experiment_id for volume in volumes)
        return dict.fromkeys(self.lookup_entries.complete(experiment_ids), indexed)


def optional_indexes(policies: Policies) -> OptionalIndexes:
    """The indexes that the operator of a table chose."""
    return OptionalIndexes(tuple(policies.text_fields()), policies.indexed_metric())


def run_stream(
    runs: ExperimentRuns, query: RunQuery, after: Position | None, choice: Choice | None = None
) -> Iterator[list[RunRecord]]:
    """The matching runs of one experiment in order, page by page."""
    chosen = choice or query.choice(runs)
    runs.give_up_after = chosen.give_up_after
    path: Path | None = chosen.path
    last: RunRecord | None = None
    while path is not None:
        reached = None if last is None else query.ordering.position(last)
        try:
            for found in _matching(runs, query, path, after):
                rows = found if reached is None else [*rows_after(found, query.ordering, reached)]
                last = rows[-1] if rows else last
                yield rows
        except PathTooExpensive:
            runs.give_up_after, path = None, chosen.fallback
        except ResealedDuringRead:
            assert isinstance(path, ByMetric)
            path = query.plans().by_rank(path)
        else:
            return


def _matching(
    runs: ExperimentRuns, query: RunQuery, path: Path, after: Position | None
) -> Iterator[list[RunRecord]]:
    """The matching runs that a path brings, in order, page by page."""
    matches = all_hold(query.comparisons)

    def judged() -> Entries:
        for entries in path.entries(runs, query.ordering, after):
            found = [entry for entry in entries if matches(entry[1])]
            runs.runs_matched += len(found)
            yield found

    def live() -> list[RunRecord]:
        return [one for one in runs.live() if matches(one)] if path.sealed_only else []

    # The path comes first: it decides how the live runs are read.
    if path.ordered:
        yield from with_others(sort_groups(judged(), query.ordering), live, query.ordering)
    else:
        found = [record for entries in judged() for _, record in entries]
        yield in_order([*found, *live()], query.ordering)


def parse_run_query(
    filter_string: str | None, order_by: Sequence[str] | None, view_type: int
) -> RunQuery:
    """A search in MLflow's words, with MLflow's own parsers and their errors."""
    return RunQuery(
        comparisons=tuple(
            _comparison(term) for term in parse_search_filter(SearchUtils, filter_string)
        ),
        ordering=_ordering(order_by),
        stages=frozenset(LifecycleStage.view_type_to_stages(view_type)),
    )


def _comparison(term: dict[str, object]) -> Comparison:
    kind, name = str(term["type"]), SearchUtils.translate_key_alias(term["key"])
    comparator, value = str(term["comparator"]).upper(), term["value"]
    _check_comparator(kind, name, comparator)
    if (kind, name) == (ATTRIBUTE, "run_name"):
        # MLflow filters by the tag that carries the name, and sorts by the name itself.
        kind, name = TAG, MLFLOW_RUN_NAME
    if kind == METRIC and not comparator.endswith("NULL"):
        value = float(value)  # type: ignore[arg-type]
    return Comparison(kind, name, comparator, value)


def _check_comparator(kind: str, name: str, comparator: str) -> None:
    """Refuse what MLflow refuses: each of its checks raises for a comparator it does not know."""
    checks = (
        SearchUtils.is_metric,
        SearchUtils.is_param,
        SearchUtils.is_tag,
        SearchUtils.is_dataset,
    )
    if not (
        SearchUtils.is_string_attribute(kind, name, comparator)
        or SearchUtils.is_numeric_attribute(kind, name, comparator)
        or any(check(kind, comparator) for check in checks)  # type: ignore[no-untyped-call]
    ):
        raise MlflowException(
            f"Invalid search expression type '{kind}'", error_code=INVALID_PARAMETER_VALUE
        )


def _ordering(order_by: Sequence[str] | None) -> Ordering:
    sort_keys: list[SortKey] = []
    for clause in order_by or []:
        kind, name, ascending = SearchUtils.parse_order_by_for_search_runs(clause)
        name = SearchUtils.translate_key_alias(name)
        if any((key.kind, key.name) == (kind, name) for key in sort_keys):
            raise MlflowException(f"`order_by` contains duplicate fields: {order_by}")
        sort_keys.append(SortKey(kind, name, ascending))
    if not any((key.kind, key.name) == (ATTRIBUTE, START_TIME) for key in sort_keys):
        sort_keys.append(SortKey(ATTRIBUTE, START_TIME, ascending=False))
    return Ordering((*sort_keys, SortKey(ATTRIBUTE, "run_id")))
