"""Reading whole traces, with their spans."""

from __future__ import annotations

import time

from mlflow.entities import Span, Trace, TraceData
from mlflow.exceptions import MlflowTracingException
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.tracing.constant import SpansLocation
from mlflow.tracing.utils.artifact_utils import get_archive_uri_for_trace

from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.mlflow_compat.traces import span_from_stored_content
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.places import TracePlace
from mlflow_dynamodbstore.shared.refusals import not_found
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.traces import items
from mlflow_dynamodbstore.traces.lookup import TraceLookup
from mlflow_dynamodbstore.traces.records import (
    TraceRecord,
    merged_spans,
    records,
    span_keys,
    with_spans,
)
from mlflow_dynamodbstore.traces.xray_cache import XRaySpans

TRIES = 3


class TraceReading:
    """Traces with their spans, which come from X-Ray where none are stored here."""

    def __init__(self, context: Context, trace_lookup: TraceLookup, xray_spans: XRaySpans) -> None:
        self.table = context.table
        self.trace_lookup = trace_lookup
        self.xray_spans = xray_spans

    def get_trace(self, trace_id: str, *, allow_partial: bool = False) -> Trace:
        for attempt in range(1 if allow_partial else TRIES):
            if attempt:
                time.sleep(2 ** (attempt - 1))  # more spans may arrive
            found = self._get_with_spans(trace_id)
            complete = _is_complete(found)
            if complete or allow_partial:
                return _entity(found)
        raise not_found(
            f"Trace with ID {trace_id} is not fully exported yet, please try again later."
        )

    def batch_get_traces(
        self,
        trace_ids: list[str],
        location: str | None = None,
        experiment_ids: list[str] | None = None,
    ) -> list[Trace]:
        del location  # for other stores
        own = self.trace_lookup.find_in_order(trace_ids, experiment_ids)
        if self.xray_spans.fetch_missing(own):
            own = self.trace_lookup.find_in_order(trace_ids, experiment_ids)
        found = records(self.table, own)
        with_spans(self.table, [trace for trace in found if _has_spans_here(trace)])
        return [_entity(trace) for trace in found if _is_complete(trace)]

    def _get_with_spans(self, trace_id: str) -> TraceRecord:
        """A trace with its spans; raises when the active workspace has no such trace."""
        found = self.trace_lookup.at_place(trace_id, self._find_with_spans)
        if found is None:
            raise not_found(f"Trace with ID {trace_id} is not found.")
        if self.xray_spans.fetch_missing([found.item]):
            return self._find_with_spans(found.place) or found
        return found

    def _find_with_spans(self, place: TracePlace) -> TraceRecord | None:
        """The trace at a place with its spans, or None when there is none; takes one query."""
        query = Query(place.pk, where=trace_keys.trace_and_children(place.trace_id).on())
        found = {self.table.schema.key_of(item): item for item in self.table.items(query)}
        if place.key not in found:
            return None
        read = records(self.table, [found[place.key]])
        if not read:
            return None
        trace = read[0]
        heads = [found[key] for key in span_keys(trace.item) if key in found]
        trace.spans = merged_spans(self.table, heads, nearby=found)
        return trace


def _entity(trace: TraceRecord) -> Trace:
    """MLflow's entity of a trace, with the spans that are here or in its archive."""
    info = trace.to_info()
    if items.is_archived(trace.item):
        repository = get_artifact_repository(get_archive_uri_for_trace(info))
        spans: list[Span] = repository.download_archived_trace_data().spans
    else:
        spans = [span_from_stored_content(span.content) for span in trace.spans]
    return Trace(info=info, data=TraceData(spans=spans))


def _has_spans_here(trace: TraceRecord) -> bool:
    return bool(trace.item.get(items.SPANS_LOCATION) == SpansLocation.TRACKING_STORE.value)


def _is_complete(trace: TraceRecord) -> bool:
    """Whether all spans of a trace have arrived; raises when they are kept in artifacts."""
    if items.is_archived(trace.item):
        return True
    if not _has_spans_here(trace):
        raise MlflowTracingException("Trace data not stored in tracking store")
    return bool(trace.spans) and len(trace.spans) >= trace.expected_spans
