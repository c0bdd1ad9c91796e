"""Spans and previews of traces."""

from __future__ import annotations

import json
from typing import Any

from mlflow.entities import Span
from mlflow.entities.span import LazySpan
from mlflow.tracing.constant import TRACE_REQUEST_RESPONSE_PREVIEW_MAX_LENGTH_OSS
from mlflow.tracing.otel.translation import translate_loaded_span

from mlflow_dynamodbstore.mlflow_compat.names import private


def _preview(request_or_response: str | dict[str, Any] | None, role: str) -> str | None:
    """The beginning of the whole text; MLflow's own finds the last message of the role."""
    del role
    if request_or_response is None:
        return None
    text = (
        request_or_response
        if isinstance(request_or_response, str)
        else json.dumps(request_or_response)
    )
    limit = TRACE_REQUEST_RESPONSE_PREVIEW_MAX_LENGTH_OSS
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _span_of(content: str) -> LazySpan:
    """As MLflow up to 3.16 reads a stored span."""
    return LazySpan(translate_loaded_span(json.loads(content)))


get_truncated_preview = private(
    "mlflow.tracing.utils.truncation", "_get_truncated_preview", _preview
)
span_from_stored_content = private("mlflow.entities.span", "LazySpan.from_stored_content", _span_of)


def span_resource(span: Span) -> Any:
    """What the program that sent a span says about itself, in OpenTelemetry's form, or None."""
    return getattr(getattr(span, "_span", None), "resource", None)
