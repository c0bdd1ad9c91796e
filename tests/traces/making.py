"""Traces for the tests."""

from __future__ import annotations

import json
import random
from typing import Any

from mlflow.entities import Span, TraceInfo
from mlflow.entities.assessment import Feedback
from mlflow.entities.assessment_source import AssessmentSource
from mlflow.entities.model_registry import PromptVersion
from mlflow.entities.span import create_mlflow_span
from mlflow.entities.trace_location import TraceLocation
from mlflow.entities.trace_state import TraceState
from mlflow.tracing.constant import SpanAttributeKey
from opentelemetry import trace as otel
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan

NOON = 1_700_000_000_000
NO_RESOURCE = Resource({})


def trace_id(number: int) -> str:
    return f"tr-{number:032x}"


def make_span(
    trace: str,
    number: int,
    *,
    parent: int | None = 0,
    name: str | None = None,
    kind: str = "LLM",
    start: int = NOON,
    lasting: int | None = 5,
    failed: bool = False,
    resource: Resource = NO_RESOURCE,
    attributes: dict[str, Any] | None = None,
) -> Span:
    """Span ``number`` of a trace; number 0 is its root unless a parent is given."""
    is_root = parent is None or number == 0
    stored = {
        SpanAttributeKey.REQUEST_ID: json.dumps(trace),
        SpanAttributeKey.SPAN_TYPE: json.dumps(kind),
        **{key: json.dumps(value) for key, value in (attributes or {}).items()},
    }
    code = otel.StatusCode.ERROR if failed else otel.StatusCode.OK
    readable = ReadableSpan(
        name=name or f"step-{number}",
        context=_context(trace, number),
        parent=None if is_root else _context(trace, parent or 0),
        attributes=stored,
        start_time=(start + number) * 1_000_000,
        end_time=None if lasting is None else (start + number + lasting) * 1_000_000,
        status=otel.Status(code),
        resource=resource,
    )
    return create_mlflow_span(readable, trace, kind)


def make_spans(trace: str, count: int = 10, start: int = NOON) -> list[Span]:
    """A root and its children, with inputs, outputs and token usage as a client sends them."""
    return [
        make_span(
            trace,
            number,
            start=start,
            kind="LLM" if number % 3 == 0 else "TOOL",
            attributes={
                SpanAttributeKey.INPUTS: {"question": f"What is the answer number {number}?"},
                SpanAttributeKey.OUTPUTS: {"answer": f"It is {random.Random(number).random()}."},
                **(usage(10 + number, 5) if number in (3, 6, 9) else {}),
            },
        )
        for number in range(count)
    ]


def usage(input_tokens: int, output_tokens: int) -> dict[str, Any]:
    """The attribute with which a span says how many tokens it took."""
    total = input_tokens + output_tokens
    counts = {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "total_tokens": total,
    }
    return {SpanAttributeKey.CHAT_USAGE: counts}


def make_info(
    trace: str,
    experiment_id: str,
    *,
    start: int = NOON,
    lasting: int | None = 29,
    state: TraceState = TraceState.OK,
    name: str | None = "predict",
    tags: dict[str, str] | None = None,
    metadata: dict[str, str] | None = None,
    **rest: Any,
) -> TraceInfo:
    named = {} if name is None else {"mlflow.traceName": name}
    return TraceInfo(
        trace_id=trace,
        trace_location=TraceLocation.from_experiment_id(experiment_id),
        request_time=start,
        execution_duration=lasting,
        state=state,
        tags={**named, **(tags or {})},
        trace_metadata=metadata or {},
        **rest,
    )


def client_metadata(spans: int = 10) -> dict[str, str]:
    """What MLflow's client says about a trace whose spans it has sent."""
    return {
        "mlflow.source.name": "app.py",
        "mlflow.source.type": "LOCAL",
        "mlflow.user": "ada",
        "mlflow.traceInputs": '{"question": "What is the answer?"}',
        "mlflow.traceOutputs": '{"answer": 42}',
        "mlflow.trace_schema.version": "3",
        "mlflow.trace.sizeStats": json.dumps({"total_size_bytes": 9000, "num_spans": spans}),
    }


def feedback(trace: str | None, name: str, value: Any, **rest: Any) -> Feedback:
    return Feedback(
        name=name,
        value=value,
        trace_id=trace,
        source=AssessmentSource(source_type="HUMAN", source_id="ada"),
        **rest,
    )


def _context(trace: str, number: int) -> otel.SpanContext:
    numbers = random.Random(trace)
    return otel.SpanContext(
        numbers.getrandbits(128), numbers.getrandbits(48) + number, False, otel.TraceFlags(1)
    )


def make_prompt(name: str, version: int) -> PromptVersion:
    return PromptVersion(name=name, version=version, template="hi")  # type: ignore[abstract]
