"""An instrumented program: nested spans, an exception, a session, tags, tokens and feedback."""

from __future__ import annotations

from contextlib import suppress

import mlflow
from mlflow.tracing.constant import SpanAttributeKey


@mlflow.trace(span_type="TOOL")
def search(city: str) -> list[str]:
    if city == "Atlantis":
        raise ValueError("no such city")
    return [city.upper()]


@mlflow.trace(span_type="LLM")
def ask(documents: list[str]) -> str:
    span = mlflow.get_current_active_span()
    assert span is not None
    span.set_attribute(
        SpanAttributeKey.CHAT_USAGE,
        {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10},
    )
    return " ".join(documents)


@mlflow.trace(name="agent", span_type="AGENT")
def agent(city: str) -> str:
    mlflow.update_current_trace(tags={"city": city}, metadata={"mlflow.trace.session": "talk"})
    return ask(search(city))


mlflow.set_experiment("agents")
agent("Rome")
with suppress(ValueError):
    agent("Atlantis")
mlflow.flush_trace_async_logging()
(rome,) = mlflow.search_traces(filter_string="tags.city = 'Rome'", return_type="list")
mlflow.log_feedback(trace_id=rome.info.trace_id, name="right", value=True)
