"""Searching traces."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence

from mlflow.entities import TraceInfo
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from mlflow.store.tracking import SEARCH_TRACES_DEFAULT_MAX_RESULTS
from mlflow.store.tracking.utils.trace_analytics import TRACE_ANALYTICS_COLUMNS_BY_METADATA_KEY
from mlflow.utils.search_utils import SearchTraceUtils
from mlflow.utils.validation import _resolve_experiment_ids_and_locations

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.places import TracePlace
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE, TAG
from mlflow_dynamodbstore.shared.search.ordering import Ordering, Position, SortKey
from mlflow_dynamodbstore.shared.search.pages import (
    merged,
    page,
    read_first_row,
    sort_groups,
    validate_max_results,
)
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.traces.filters import AssessmentTerm, TraceFilter, parse_filter
from mlflow_dynamodbstore.traces.lookup import TraceLookup
from mlflow_dynamodbstore.traces.paths import TIME, Traces, able_paths
from mlflow_dynamodbstore.traces.records import METADATA, TraceRecord, records, with_spans

SPANS_AT_ONCE = 50
NEWEST_FIRST = Ordering(
    (SortKey(ATTRIBUTE, TIME, ascending=False), SortKey(ATTRIBUTE, "request_id"))
)

Sessions = dict[AssessmentTerm, frozenset[str]]


class TraceSearch:
    """Search over traces."""

    def __init__(
        self, context: Context, experiment_lookup: ExperimentLookup, trace_lookup: TraceLookup
    ) -> None:
        self.table = context.table
        self.experiment_lookup = experiment_lookup
        self.trace_lookup = trace_lookup

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
        locations = _resolve_experiment_ids_and_locations(experiment_ids, locations)
        validate_max_results(max_results)
        ordering = parse_order(order_by)
        wanted = parse_filter(filter_string)
        after = ordering.after(page_token)
        found, token = self._search_records(
            self.searched_experiments(locations), wanted, ordering, after, max_results
        )
        return [trace.to_info() for trace in found], token

    def searched_experiments(self, locations: Iterable[str] | None) -> list[str]:
        """The experiments to search: those named, of this workspace, or all."""
        if locations is None:
            return self.experiment_lookup.ids()
        named = dict.fromkeys(str(int(place)) for place in locations)
        return [place for place in named if self.experiment_lookup.is_in_workspace(place)]

    def _search_records(
        self,
        places: Sequence[str],
        wanted: TraceFilter,
        ordering: Ordering,
        after: Position | None,
        size: int,
    ) -> tuple[list[TraceRecord], str | None]:
        sessions = self.assessed_sessions(places, wanted)
        # One to know that there are more, and one to know that no other shares its time.
        batch = size + 2 if len(places) == 1 else max(16, 2 * size // max(1, len(places)))
        streams = [
            _stream(
                Traces(self.table, place, batch, index), wanted, sessions, ordering, after, size
            )
            for place, index in self.trace_lookup.time_indexes(places).items()
        ]
        if len(streams) > 1:
            streams = self.table.map(read_first_row, streams)
        rows = merged(streams, ordering) if streams else iter(())
        return page(rows, ordering, after, size)

    def matching_traces(
        self, places: Sequence[str], wanted: TraceFilter, ordering: Ordering = NEWEST_FIRST
    ) -> Iterator[TraceRecord]:
        """All traces that match, experiment by experiment, page by page."""
        sessions = self.assessed_sessions(places, wanted)
        for place, index in self.trace_lookup.time_indexes(places).items():
            traces = Traces(self.table, place, in_time=index)
            yield from _found(traces, wanted, sessions, ordering, None)

    def assessed_sessions(self, places: Sequence[str], wanted: TraceFilter) -> Sessions:
        """For each term about assessments: the sessions that one speaks of as a whole.

        Traces with such assessments are noted, so that this reads them and no others.
        """
        if not wanted.assessments:
            return {}
        found = records(self.table, self._session_assessed(places))
        return {
            term: frozenset(
                trace.session
                for trace in found
                if trace.session is not None and _speaks_of_session(trace, term)
            )
            for term in wanted.assessments
        }

    def _session_assessed(self, places: Sequence[str]) -> list[Item]:
        noted = []
        for place in places:
            query = Query(
                experiment_keys.experiment_pk(place), where=trace_keys.SESSION_ASSESSED.on()
            )
            noted += [
                TracePlace(place, str(note["trace_id"])).key for note in self.table.items(query)
            ]
        return list(self.table.get_many(noted).values())


def _speaks_of_session(trace: TraceRecord, term: AssessmentTerm) -> bool:
    found = term.found_by()
    return any(one.speaks_of_session and found(one) for one in trace.assessments)


def _stream(
    traces: Traces,
    wanted: TraceFilter,
    sessions: Sessions,
    ordering: Ordering,
    after: Position | None,
    size: int,
) -> Iterator[TraceRecord]:
    """The matching traces of one experiment in order, as many as a page can use."""
    path = next(p for p in able_paths(wanted.comparisons, ordering) if p.is_cheap(traces))
    if not path.ordered:
        traces.batch = None
    found = judged(traces, path.pages(traces, after), wanted, sessions)
    if path.ordered:
        yield from sort_groups(((trace.request_time, trace) for trace in found), ordering)
        return

    def position(trace: TraceRecord) -> tuple[object, ...]:
        return ordering.comparable(ordering.position(trace))

    if after is not None:
        bound = ordering.comparable(after)
        found = (trace for trace in found if position(trace) > bound)
    # Only as many are held as the page can show, however many there are.
    yield from heapq.nsmallest(size + 1, found, key=position)


def _found(
    traces: Traces,
    wanted: TraceFilter,
    sessions: Sessions,
    ordering: Ordering,
    after: Position | None,
) -> Iterator[TraceRecord]:
    path = next(p for p in able_paths(wanted.comparisons, ordering) if p.is_cheap(traces))
    return judged(traces, path.pages(traces, after), wanted, sessions)


def judged(
    traces: Traces, pages: Iterable[list[Item]], wanted: TraceFilter, sessions: Sessions
) -> Iterator[TraceRecord]:
    """Those traces that satisfy a filter; spans are read only where nothing else decides."""
    cheap = wanted.cheap_test(sessions)
    with_content = wanted.span_test() if wanted.needs_content else None
    for some in pages:
        found = [trace for trace in records(traces.table, some) if cheap(trace)]
        if with_content is None:
            traces.matched += len(found)
            yield from found
            continue
        for chunk in batched(found, SPANS_AT_ONCE):
            with_spans(traces.table, chunk)
            matching = [trace for trace in chunk if with_content(trace)]
            traces.matched += len(matching)
            yield from matching


def parse_order(order_by: Sequence[str] | None) -> Ordering:
    """An order in MLflow's words; the newest first, then by id, where it leaves a choice."""
    asked: list[SortKey] = []
    for clause in order_by or []:
        kind, name, ascending = SearchTraceUtils.parse_order_by_for_search_traces(clause)
        if kind == METADATA and name in TRACE_ANALYTICS_COLUMNS_BY_METADATA_KEY:
            raise MlflowException.invalid_parameter_value(
                f"Ordering by reserved metadata '{name}' is not supported because it is "
                "represented by multiple columns."
            )
        if kind not in (ATTRIBUTE, TAG, METADATA):
            raise MlflowException(
                f"Invalid identifier type '{kind}'", error_code=INVALID_PARAMETER_VALUE
            )
        if any((key.kind, key.name) == (kind, name) for key in asked):
            raise MlflowException(f"`order_by` contains duplicate fields: {order_by}")
        asked.append(SortKey(kind, name, ascending))
    for key in NEWEST_FIRST.keys:
        if not any((one.kind, one.name) == (key.kind, key.name) for one in asked):
            asked.append(key)
    return Ordering(tuple(asked))
