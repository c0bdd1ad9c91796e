"""Searching traces."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from mlflow.entities import TraceInfo
from mlflow.exceptions import MlflowException
from mlflow.store.tracking import SEARCH_TRACES_DEFAULT_MAX_RESULTS
from mlflow.utils.search_utils import SearchTraceUtils

from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.mlflow_compat.trace_analytics import (
    TRACE_ANALYTICS_COLUMNS_BY_METADATA_KEY,
)
from mlflow_dynamodbstore.mlflow_compat.validation import (
    parse_experiment_ids,
    resolve_experiment_ids_and_locations,
)
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.lookup_entries import LookupEntries
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE, TAG
from mlflow_dynamodbstore.shared.search.ordering import Ordering, Position, SortKey
from mlflow_dynamodbstore.shared.search.pages import (
    is_after,
    page,
    sort_groups,
    validate_max_results,
)
from mlflow_dynamodbstore.shared.search.streams import VolumeStreams, all_pages, likely_share
from mlflow_dynamodbstore.shared.volume_states import Volume
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.traces.filters import AssessmentTerm, TraceFilter, parse_filter
from mlflow_dynamodbstore.traces.paths import (
    CLIENT_REQUEST,
    TIME,
    ByTime,
    ExperimentTraces,
    Path,
    PathTooExpensive,
)
from mlflow_dynamodbstore.traces.plans import usable_paths
from mlflow_dynamodbstore.traces.records import METADATA, TraceRecord, records, with_spans
from mlflow_dynamodbstore.traces.time_indexes import TIME_INDEX, TimeIndexes

SPANS_AT_ONCE = 50
NEWEST_FIRST = Ordering(
    (SortKey(ATTRIBUTE, TIME, ascending=False), SortKey(ATTRIBUTE, "request_id"))
)

AssessedSessions = dict[AssessmentTerm, frozenset[str]]
"""For each term about assessments, the sessions that a matching assessment is about."""


class TraceSearch:
    """Search over traces."""

    def __init__(
        self,
        context: Context,
        experiment_lookup: ExperimentLookup,
        trace_time_indexes: TimeIndexes,
        lookup_entries: LookupEntries,
    ) -> None:
        self.lookup_entries = lookup_entries
        self.table = context.table
        self.experiment_lookup = experiment_lookup
        self.trace_time_indexes = trace_time_indexes

    def search_traces(
        self,
        experiment_ids: list[str] | None = None,
        filter_string: str | None = None,
        max_results: int = SEARCH_TRACES_DEFAULT_MAX_RESULTS,
        order_by: list[str] | None = None,
        page_token: str | None = None,
        model_id: str | None = None,
        locations: list[str] | None = None,
    ) -> tuple[list[TraceInfo], str | None]:
        del model_id  # for other stores
        locations = resolve_experiment_ids_and_locations(experiment_ids, locations)
        validate_max_results(max_results)
        ordering = parse_order(order_by)
        wanted = parse_filter(filter_string)
        after = ordering.after(page_token)
        found, token = self._search(
            self.searched_experiments(locations), wanted, ordering, after, max_results
        )
        return [trace.to_info() for trace in found], token

    def searched_experiments(self, named: Iterable[str] | None) -> list[str]:
        """The experiments of the active workspace to search: those named, or all."""
        if named is None:
            return self.experiment_lookup.ids()
        ids = dict.fromkeys(map(str, parse_experiment_ids([*named])))
        return [one for one in ids if self.experiment_lookup.is_in_workspace(one)]

    def _search(
        self,
        experiment_ids: Sequence[str],
        wanted: TraceFilter,
        ordering: Ordering,
        after: Position | None,
        size: int,
    ) -> tuple[list[TraceRecord], str | None]:
        sessions = self.assessed_sessions(experiment_ids, wanted)
        state = self.experiment_lookup.volumes.state
        streams: VolumeStreams[TraceRecord] = VolumeStreams(ordering, TIME, after)
        volumes = [
            volume
            for volume in self.experiment_lookup.volumes.of(experiment_ids)
            if not streams.has_passed(state(volume).traces)
        ]
        count = sum(not streams.can_wait(state(volume).traces) for volume in volumes)
        # One more shows whether there is another page, one more whether the last shares its time.
        needed = likely_share(size + 2, count)
        chosen = self._paths(volumes, experiment_ids, wanted, ordering, needed)
        for traces, path in chosen:
            stream = _stream(traces, path, wanted, sessions, ordering, after, size)
            streams.add(stream, state(traces.volume).traces)
        sample = count > 1 and all(_may_refuse_most(path, wanted) for _, path in chosen)
        rows = streams.merged(self.table, size, sample=sample)
        return page(rows, ordering, after, size)

    def matching_traces(
        self, experiment_ids: Sequence[str], wanted: TraceFilter, ordering: Ordering = NEWEST_FIRST
    ) -> Iterator[TraceRecord]:
        """All traces that match, in any order, the volumes read side by side."""
        streams = self.matching_by_volume(experiment_ids, wanted, ordering)
        return chain.from_iterable(all_pages(self.table, streams))

    def matching_by_volume(
        self, experiment_ids: Sequence[str], wanted: TraceFilter, ordering: Ordering
    ) -> Iterator[Iterator[list[TraceRecord]]]:
        """For each volume, all its traces that match, page by page."""
        sessions = self.assessed_sessions(experiment_ids, wanted)
        volumes = self.experiment_lookup.volumes.of(experiment_ids)
        for traces, path in self._paths(volumes, experiment_ids, wanted, ordering):
            yield filtered(traces, path.pages(traces, None), wanted, sessions)

    def _paths(
        self,
        volumes: Sequence[Volume],
        experiment_ids: Sequence[str],
        wanted: TraceFilter,
        ordering: Ordering,
        needed: int | None = None,
    ) -> list[tuple[ExperimentTraces, Path]]:
        """The traces of each volume, the newest first, with the path that reads least of them.

        The path is chosen once for each experiment.
        """
        with_lookups = self._with_lookups(experiment_ids, wanted)
        indexes = self.trace_time_indexes.of(experiment_ids)
        answer: list[ExperimentTraces] = []
        of_experiments: dict[str, list[ExperimentTraces]] = {}
        for volume in reversed(volumes):
            one = volume.experiment_id
            traces = ExperimentTraces(
                self.table, volume, needed, indexes[one], one in with_lookups, answer=answer
            )
            of_experiments.setdefault(one, []).append(traces)
        able = usable_paths(wanted.comparisons, ordering)
        found = self.table.map(
            lambda some: next(path for path in able if path.is_cheap(some)),
            [*of_experiments.values()],
        )
        return [
            (traces, path)
            for some, path in zip(of_experiments.values(), found, strict=True)
            for traces in some
        ]

    def _with_lookups(self, experiment_ids: Sequence[str], wanted: TraceFilter) -> set[str]:
        """The experiments with complete lookup entries, where the filter asks for an entry."""
        asked = any((c.kind, c.name) == (ATTRIBUTE, CLIENT_REQUEST) for c in wanted.comparisons)
        return self.lookup_entries.complete(experiment_ids) if asked else set()

    def assessed_sessions(
        self, experiment_ids: Sequence[str], wanted: TraceFilter
    ) -> AssessedSessions:
        """For each term about assessments, the sessions that a matching assessment is about.

        Notes name the traces with such assessments, so no others are read.
        """
        if not wanted.assessments:
            return {}
        found = records(self.table, self._traces_with_session_assessments(experiment_ids))
        return {
            term: frozenset(
                trace.session
                for trace in found
                if trace.session is not None and _is_about_session(trace, term)
            )
            for term in wanted.assessments
        }

    def _traces_with_session_assessments(self, experiment_ids: Sequence[str]) -> list[Item]:
        """The traces with an assessment about their whole session."""
        notes = (
            self.table.pages(Query(volume.pk, where=trace_keys.SESSION_ASSESSED.on()))
            for volume in self.experiment_lookup.volumes.of(experiment_ids)
        )
        keys = [
            Key(note["PK"], trace_keys.trace(str(note["trace_id"])))
            for page in all_pages(self.table, notes)
            for note in page
        ]
        return list(self.table.get_many(keys).values())


def _is_about_session(trace: TraceRecord, term: AssessmentTerm) -> bool:
    found = term.matcher()
    return any(one.is_about_session and found(one) for one in trace.assessments)


def _stream(
    traces: ExperimentTraces,
    path: Path,
    wanted: TraceFilter,
    sessions: AssessedSessions,
    ordering: Ordering,
    after: Position | None,
    size: int,
) -> Iterator[list[TraceRecord]]:
    """The matching traces of one volume in order, at least as many as a page shows."""

    def position(trace: TraceRecord) -> tuple[object, ...]:
        return ordering.comparable(ordering.position(trace))

    bound = None if after is None else ordering.comparable(after)
    if path.ordered:
        found = filtered(traces, path.pages(traces, after), wanted, sessions)
        grouped = ([(path.group(one.item), one) for one in some] for some in found)
        yielded: list[TraceRecord] = []
        try:
            for some in sort_groups(grouped, ordering):
                yielded += some
                yield some
        except PathTooExpensive:
            path = _everything(wanted, ordering)
            reached = [*map(position, yielded), *([] if bound is None else [bound])]
            bound = max(reached, default=None)
        else:
            return
    traces.needed = None
    pages = filtered(traces, path.pages(traces, None), wanted, sessions)
    rows = (
        one for some in pages for one in some if bound is None or is_after(position(one), bound)
    )
    # Keeps only as many in memory as the page shows.
    yield heapq.nsmallest(size + 1, rows, key=position)


def _may_refuse_most(path: Path, wanted: TraceFilter) -> bool:
    """Whether the filter may refuse most of what a path brings in the order asked for."""
    is_by_time = isinstance(path, ByTime) and path.index == TIME_INDEX
    return is_by_time and path.ordered and not wanted.is_period


def _everything(wanted: TraceFilter, ordering: Ordering) -> Path:
    """The path that reads all traces of the period that a filter allows."""
    return usable_paths(wanted.comparisons, ordering)[-1]


def filtered(
    traces: ExperimentTraces,
    pages: Iterable[list[Item]],
    wanted: TraceFilter,
    sessions: AssessedSessions,
) -> Iterator[list[TraceRecord]]:
    """The traces that match a filter; spans are read only of those that match all else."""
    cheap = wanted.cheap_test(sessions)
    with_content = wanted.span_test() if wanted.needs_content else None
    for some in pages:
        found = [trace for trace in records(traces.table, some) if cheap(trace)]
        if with_content is None:
            traces.matched += len(found)
            yield found
            continue
        for chunk in batched(found, SPANS_AT_ONCE):
            with_spans(traces.table, chunk)
            matching = [trace for trace in chunk if with_content(trace)]
            traces.matched += len(matching)
            yield matching


def parse_order(order_by: Sequence[str] | None) -> Ordering:
    """MLflow's ``order_by``, parsed; ties are ordered newest first, then by id."""
    asked: list[SortKey] = []
    for clause in order_by or []:
        kind, name, ascending = SearchTraceUtils.parse_order_by_for_search_traces(clause)
        if kind == METADATA and name in TRACE_ANALYTICS_COLUMNS_BY_METADATA_KEY:
            raise invalid(
                f"Ordering by reserved metadata '{name}' is not supported because it is "
                "represented by multiple columns."
            )
        if kind not in (ATTRIBUTE, TAG, METADATA):
            raise invalid(f"Invalid identifier type '{kind}'")
        if any((key.kind, key.name) == (kind, name) for key in asked):
            raise MlflowException(f"`order_by` contains duplicate fields: {order_by}")
        asked.append(SortKey(kind, name, ascending))
    for key in NEWEST_FIRST.keys:
        if not any((one.kind, one.name) == (key.kind, key.name) for one in asked):
            asked.append(key)
    return Ordering(tuple(asked))
