"""Finding sessions whose last trace lies in a period."""

from __future__ import annotations

from collections.abc import Iterable

from mlflow.genai.scorers.online.entities import CompletedSession

from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.mlflow_compat.validation import parse_experiment_id
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.volume_states import Volume
from mlflow_dynamodbstore.traces.filters import TraceFilter, parse_filter
from mlflow_dynamodbstore.traces.paths import ExperimentTraces
from mlflow_dynamodbstore.traces.records import TraceRecord, records
from mlflow_dynamodbstore.traces.search import TraceSearch, filtered


class Sessions:
    """Sessions of traces."""

    def __init__(
        self, context: Context, experiment_lookup: ExperimentLookup, trace_search: TraceSearch
    ) -> None:
        self.table = context.table
        self.experiment_lookup = experiment_lookup
        self.trace_search = trace_search

    def find_completed_sessions(
        self,
        experiment_id: str,
        min_last_trace_timestamp_ms: int,
        max_last_trace_timestamp_ms: int,
        max_results: int | None = None,
        filter_string: str | None = None,
    ) -> list[CompletedSession]:
        experiment_id = str(parse_experiment_id(experiment_id))
        if not self.experiment_lookup.is_in_workspace(experiment_id):
            return []
        wanted = parse_filter(filter_string)
        latest = self._latest_times(experiment_id, min_last_trace_timestamp_ms)
        completed = [
            (time, session)
            for session, time in latest.items()
            if time <= max_last_trace_timestamp_ms
        ]
        found: list[CompletedSession] = []
        for time, session in sorted(completed):
            if max_results is not None and len(found) >= max_results:
                break
            first = self._first_traces(experiment_id, session)
            if filter_string and not self._any_matches(experiment_id, first, wanted):
                continue
            found.append(CompletedSession(session, first[0].request_time, time))
        return found

    def _latest_times(self, experiment_id: str, since: int) -> dict[str, int]:
        """The sessions with a trace since a time, each with the time of its last trace."""
        recent = TraceFilter.in_period(since)
        latest: dict[str, int] = {}
        for trace in self.trace_search.matching_traces([experiment_id], recent):
            if trace.session is not None:
                latest[trace.session] = max(latest.get(trace.session, since), trace.request_time)
        return latest

    def _first_traces(self, experiment_id: str, session: str) -> list[TraceRecord]:
        """The first trace of a session, or all traces that began at that time."""
        volumes = self.experiment_lookup.volumes.of([experiment_id])
        first_in = self.table.map(lambda volume: self._first_in(volume, session), volumes)
        found = [trace for traces in first_in for trace in traces]
        first = min((trace.request_time for trace in found), default=0)
        return [trace for trace in found if trace.request_time == first]

    def _first_in(self, volume: Volume, session: str) -> list[TraceRecord]:
        traces = ExperimentTraces(self.table, volume, 10)
        first: list[TraceRecord] = []
        for page in traces.pages(index_keys.traces_of_session(session), "LSI5", descending=False):
            for trace in records(self.table, page):
                if first and trace.request_time != first[0].request_time:
                    return first
                first.append(trace)
        return first

    def _any_matches(
        self, experiment_id: str, traces: Iterable[TraceRecord], wanted: TraceFilter
    ) -> bool:
        sessions = self.trace_search.assessed_sessions([experiment_id], wanted)
        own = ExperimentTraces(self.table, Volume(experiment_id))
        found = filtered(own, [[trace.item for trace in traces]], wanted, sessions)
        return any(found)
