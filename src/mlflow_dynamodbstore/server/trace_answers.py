"""Traces as the JSON that MLflow answers with."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from mlflow.entities import Trace, TraceInfo
from mlflow.tracing.constant import (
    MAX_CHARS_IN_TRACE_INFO_METADATA,
    MAX_CHARS_IN_TRACE_INFO_TAGS_KEY,
    MAX_CHARS_IN_TRACE_INFO_TAGS_VALUE,
)

from mlflow_dynamodbstore.mlflow_compat.server_app import message_to_dict
from mlflow_dynamodbstore.server.answers import Object

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LAST_MS = 253_402_300_799_999  # the end of the year 9999, where protobuf's timestamps end
_LONGEST_MS = 315_576_000_000_000  # ten thousand years, where its durations end


def trace_info(found: TraceInfo) -> Object:
    """What is known of a trace, without its spans."""
    location = found.trace_location.mlflow_experiment
    duration = found.execution_duration
    plain = (
        location is not None
        and 0 <= found.request_time <= _LAST_MS
        and (duration is None or 0 <= duration <= _LONGEST_MS)
    )
    if not plain or location is None:
        return message_to_dict(found.to_proto())
    made: Object = {"trace_id": found.trace_id}
    if found.client_request_id is not None:
        made["client_request_id"] = found.client_request_id
    made["trace_location"] = {
        "type": "MLFLOW_EXPERIMENT",
        "mlflow_experiment": {"experiment_id": location.experiment_id},
    }
    if found.request_preview is not None:
        made["request_preview"] = found.request_preview
    if found.response_preview is not None:
        made["response_preview"] = found.response_preview
    made["request_time"] = _timestamp(found.request_time)
    if duration is not None:
        made["execution_duration"] = _duration(duration)
    made["state"] = found.state.value
    if found.trace_metadata:
        made["trace_metadata"] = {
            key[:MAX_CHARS_IN_TRACE_INFO_METADATA]: str(value)[:MAX_CHARS_IN_TRACE_INFO_METADATA]
            for key, value in found.trace_metadata.items()
        }
    if found.tags:
        made["tags"] = {
            key[:MAX_CHARS_IN_TRACE_INFO_TAGS_KEY]: str(value)[:MAX_CHARS_IN_TRACE_INFO_TAGS_VALUE]
            for key, value in found.tags.items()
        }
    if found.assessments:
        made["assessments"] = [message_to_dict(one.to_proto()) for one in found.assessments]
    return made


def trace(found: Trace) -> Object:
    """A trace with its spans."""
    made: Object = {"trace_info": trace_info(found.info)}
    if found.data.spans:
        made["spans"] = [span(one) for one in found.data.spans]
    return made


def span(found: Any) -> Object:
    """A span, as OpenTelemetry's message has it."""
    return message_to_dict(found.to_otel_proto())


def _timestamp(milliseconds: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    rest = milliseconds % 1000
    return f"{text}.{rest:03d}Z" if rest else f"{text}Z"


def _duration(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return f"{seconds}.{rest:03d}s" if rest else f"{seconds}s"
