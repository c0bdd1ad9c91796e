"""How a trace's own item changes when its info or more of its spans arrive.

Either may come first. What ``start_trace`` sets is final: later spans only fill in what it left out
(session, token usage, cost, previews).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlflow.entities import TraceInfo
from mlflow.entities.trace_state import TraceState
from mlflow.tracing.constant import SpanAttributeKey, TraceMetadataKey, TraceTagKey

from mlflow_dynamodbstore.mlflow_compat.trace_analytics import (
    COST_COLUMN_BY_KEY,
    PROMOTED_TRACE_METADATA_KEYS,
    TOKEN_COLUMN_BY_KEY,
    analytics_columns_from_metadata,
    validate_trace_name,
)
from mlflow_dynamodbstore.shared.places import trace_place_of
from mlflow_dynamodbstore.shared.plain_values import duration, moment, optional_text, text
from mlflow_dynamodbstore.shared.refusals import invalid_state
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.traces import facts
from mlflow_dynamodbstore.traces.facts import Facts
from mlflow_dynamodbstore.traces.items import (
    METADATA,
    indexed,
    is_archived,
    is_finalized,
    keeps_spans_here,
)
from mlflow_dynamodbstore.traces.span_batches import SpanBatch

_OPEN_STATES = (TraceState.IN_PROGRESS.value, TraceState.STATE_UNSPECIFIED.value)


def with_info(item: Item, info: TraceInfo) -> Item:
    """A trace after ``start_trace``, without its tags and assessments."""
    after = {
        **item,
        "request_time": moment(info.request_time, "request_time"),
        "state": info.state.value,
    }
    lasted = info.execution_duration
    _assign(after, "duration", lasted if lasted is None else duration(lasted, "duration"))
    _assign(after, "client_request_id", optional_text(info.client_request_id, "client_request_id"))
    if TraceTagKey.TRACE_NAME in info.tags:
        _assign(after, "name", validate_trace_name(info.tags[TraceTagKey.TRACE_NAME]))
    if info.request_preview is not None:
        after["request_preview"] = text(info.request_preview, "request_preview")
    if info.response_preview is not None:
        after["response_preview"] = text(info.response_preview, "response_preview")
    after = with_metadata(after, dict(info.trace_metadata))
    after[METADATA + TraceMetadataKey.TRACE_INFO_FINALIZED] = "true"
    return indexed(after)


def with_metadata(item: Item, metadata: Mapping[str, str]) -> Item:
    """A trace with more metadata; session, token usage and cost become their own attributes."""
    after = dict(item)
    columns: dict[str, Any] = dict(analytics_columns_from_metadata(dict(metadata)))
    if "session_id" in columns:
        _assign(after, "session", columns.pop("session_id"))
    _assign_usage(after, columns)
    for key, value in metadata.items():
        if key not in PROMOTED_TRACE_METADATA_KEYS:
            after[METADATA + key] = optional_text(value, "metadata")
    return after


def begun_by_spans(item: Item, batch: SpanBatch) -> Item:
    """A new trace with times and state from its first spans, for :func:`with_spans`."""
    begun: Item = {
        **item,
        "request_time": batch.first_ms,
        "state": batch.root_status or TraceState.IN_PROGRESS.value,
    }
    if batch.last_ms:
        begun["duration"] = batch.last_ms - batch.first_ms
    return begun


def with_spans(item: Item, batch: SpanBatch, all_facts: Facts) -> Item:
    """A trace after more spans, without its tags; ``all_facts`` are those of all its spans."""
    after = dict(item)
    if not is_finalized(item):
        _extend(after, batch)
    if item["state"] in _OPEN_STATES and batch.root_status:
        after["state"] = batch.root_status
    _fill(after, "request_preview", batch.preview(SpanAttributeKey.INPUTS, "user"))
    _fill(after, "response_preview", batch.preview(SpanAttributeKey.OUTPUTS, "assistant"))
    if batch.name is not None:
        after["name"] = batch.name
    _add_usage(after, batch, all_facts)
    _fill(after, "session", batch.session)
    _fill(after, METADATA + TraceMetadataKey.TRACE_USER, batch.user)
    return indexed(after)


def check_takes_spans(item: Item) -> None:
    """Refuse spans for a trace whose spans are kept elsewhere."""
    if keeps_spans_here(item):
        return
    trace_id = trace_place_of(item).trace_id
    if is_archived(item):
        raise invalid_state(f"Cannot log spans to archived traces: '{trace_id}'.")
    raise invalid_state(
        "Cannot log spans because one or more traces are unavailable for DB-backed span "
        f"writes: other='{trace_id}'"
    )


def check_takes_info(item: Item) -> None:
    """Refuse an info for a trace whose spans are kept elsewhere."""
    if not keeps_spans_here(item):
        trace_id = trace_place_of(item).trace_id
        raise invalid_state(f"Cannot update traces that are no longer DB-backed: '{trace_id}'.")


def _extend(after: Item, batch: SpanBatch) -> None:
    """Extend the time of a trace to its first and last span."""
    began, lasted = after["request_time"], after.get("duration")
    first = min(began, batch.first_ms)
    after["request_time"] = first
    if batch.last_ms is not None:
        ended = batch.last_ms if lasted is None else max(began + lasted, batch.last_ms)
        after["duration"] = ended - first


def _add_usage(after: Item, batch: SpanBatch, all_facts: Facts) -> None:
    usage = after.get("usage") or {}
    final = is_finalized(after)
    for of_spans, columns in (
        (facts.token_usage, TOKEN_COLUMN_BY_KEY.values()),
        (facts.cost, COST_COLUMN_BY_KEY.values()),
    ):
        if final and any(usage.get(column) is not None for column in columns):
            continue  # start_trace has set it
        if of_spans(batch.facts):
            _assign_usage(after, of_spans(all_facts))


def _assign_usage(after: Item, columns: Mapping[str, Any]) -> None:
    usage = {**(after.get("usage") or {}), **columns}
    _assign(after, "usage", {k: v for k, v in usage.items() if v is not None} or None)


def _assign(after: Item, name: str, value: Any) -> None:
    """Set an attribute, or remove it."""
    if value is None:
        after.pop(name, None)
    else:
        after[name] = value


def _fill(after: Item, name: str, value: Any) -> None:
    """Set an attribute that is not there yet."""
    if value is not None:
        after.setdefault(name, value)
