"""What traces, spans and assessments contribute to a metric, and the filters on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlflow.entities.trace_metrics import MetricViewType
from mlflow.tracing.constant import (
    AssessmentMetricDimensionKey,
    AssessmentMetricKey,
    AssessmentMetricSearchKey,
    SpanMetricDimensionKey,
    SpanMetricKey,
    SpanMetricSearchKey,
    TraceMetadataKey,
    TraceMetricDimensionKey,
    TraceMetricKey,
    TraceMetricSearchKey,
)
from mlflow.utils.search_utils import SearchTraceMetricsUtils

from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.search.filters import TAG
from mlflow_dynamodbstore.traces.assessment_records import AssessmentRecord
from mlflow_dynamodbstore.traces.facts import SpanFact
from mlflow_dynamodbstore.traces.filters import TraceTest
from mlflow_dynamodbstore.traces.records import METADATA, TraceRecord

COSTS: Mapping[str, str] = {
    SpanMetricKey.INPUT_COST: "input_cost",
    SpanMetricKey.OUTPUT_COST: "output_cost",
    SpanMetricKey.TOTAL_COST: "total_cost",
}
_TOKENS = frozenset(
    {
        TraceMetricKey.INPUT_TOKENS,
        TraceMetricKey.OUTPUT_TOKENS,
        TraceMetricKey.TOTAL_TOKENS,
        TraceMetricKey.CACHE_READ_INPUT_TOKENS,
        TraceMetricKey.CACHE_CREATION_INPUT_TOKENS,
    }
)


@dataclass(frozen=True)
class Row:
    """One value, its time, and the dimensions it can be grouped by."""

    value: Any
    time_ns: int
    dimensions: Mapping[str, Any]


@dataclass(frozen=True)
class MetricFilters:
    """Filters, by what they test."""

    traces: tuple[TraceTest, ...] = ()
    spans: tuple[Callable[[SpanFact], bool], ...] = ()
    assessments: tuple[Callable[[AssessmentRecord], bool], ...] = ()


def rows_of(
    trace: TraceRecord, view: MetricViewType, metric: str, filters: MetricFilters
) -> Iterator[Row]:
    """The rows that a trace contributes to a metric; none where it has no value."""
    if view == MetricViewType.TRACES:
        found = _trace_rows(trace, metric)
    elif view == MetricViewType.SPANS:
        found = _span_rows(trace, metric, filters)
    else:
        found = _assessment_rows(trace, metric, filters)
    return (row for row in found if row.value is not None)


def _trace_rows(trace: TraceRecord, metric: str) -> Iterator[Row]:
    yield Row(
        _trace_value(trace, metric),
        trace.request_time * 1_000_000,
        {
            TraceMetricDimensionKey.TRACE_NAME: trace.item.get("name"),
            TraceMetricDimensionKey.TRACE_STATUS: trace.item["state"],
        },
    )


def _trace_value(trace: TraceRecord, metric: str) -> Any:
    if metric == TraceMetricKey.TRACE_COUNT:
        return 1
    if metric == TraceMetricKey.SESSION_COUNT:
        return trace.session
    if metric == TraceMetricKey.LATENCY:
        return trace.duration
    return trace.usage(metric) if metric in _TOKENS else None


def _span_rows(trace: TraceRecord, metric: str, filters: MetricFilters) -> Iterator[Row]:
    for fact in trace.facts.values():
        if all(test(fact) for test in filters.spans):
            yield Row(
                _span_value(fact, metric),
                fact.start_ns,
                {
                    SpanMetricDimensionKey.SPAN_NAME: fact.name,
                    SpanMetricDimensionKey.SPAN_TYPE: fact.type,
                    SpanMetricDimensionKey.SPAN_STATUS: fact.status,
                    SpanMetricDimensionKey.SPAN_MODEL_NAME: fact.model,
                    SpanMetricDimensionKey.SPAN_MODEL_PROVIDER: fact.provider,
                },
            )


def _span_value(fact: SpanFact, metric: str) -> Any:
    if metric == SpanMetricKey.SPAN_COUNT:
        return 1
    if metric == SpanMetricKey.LATENCY:
        return fact.latency_ms
    return fact.cost_of(COSTS[metric])


def _assessment_rows(trace: TraceRecord, metric: str, filters: MetricFilters) -> Iterator[Row]:
    for one in trace.assessments:
        if one.valid and all(test(one) for test in filters.assessments):
            yield Row(
                1 if metric == AssessmentMetricKey.ASSESSMENT_COUNT else one.number,
                trace.request_time * 1_000_000,
                {
                    AssessmentMetricDimensionKey.ASSESSMENT_NAME: one.name,
                    AssessmentMetricDimensionKey.ASSESSMENT_VALUE: one.value,
                },
            )


# --- filters --------------------------------------------------------------------------------------


def parse_filters(filters: Sequence[str], view: MetricViewType) -> MetricFilters:
    """Filter strings of MLflow, parsed; raises for one that does not fit the view."""
    traces: list[TraceTest] = []
    spans: list[Callable[[SpanFact], bool]] = []
    assessments: list[Callable[[AssessmentRecord], bool]] = []
    for text in filters:
        term = SearchTraceMetricsUtils.parse_search_filter(text)
        if term.view_type == TraceMetricSearchKey.VIEW_TYPE:
            traces.append(_on_trace(term.entity, term.key, term.value))
        elif term.view_type == SpanMetricSearchKey.VIEW_TYPE:
            _check_view(view, MetricViewType.SPANS, "span")
            spans.append(_on_span(term.entity, term.value))
        else:
            _check_view(view, MetricViewType.ASSESSMENTS, "assessment")
            assessments.append(_on_assessment(term.entity, term.value))
    return MetricFilters(tuple(traces), tuple(spans), tuple(assessments))


def _check_view(view: MetricViewType, needed: MetricViewType, what: str) -> None:
    if view != needed:
        raise invalid(f"Filtering by {what} is only supported for {needed} view type, got {view}")


def _on_trace(entity: str, key: str | None, value: str) -> TraceTest:
    if entity == TraceMetricSearchKey.STATUS:
        return lambda trace: bool(trace.item["state"] == value)
    if entity == TraceMetricSearchKey.METADATA and key == TraceMetadataKey.SOURCE_RUN:
        return lambda trace: trace.is_linked_to(value)
    kind = METADATA if entity == TraceMetricSearchKey.METADATA else TAG
    return lambda trace: value in trace.values(kind, str(key))


def _on_span(entity: str, value: str) -> Callable[[SpanFact], bool]:
    fields = {
        SpanMetricSearchKey.NAME: "name",
        SpanMetricSearchKey.STATUS: "status",
        SpanMetricSearchKey.TYPE: "type",
    }
    field = fields[entity]
    return lambda fact: bool(getattr(fact, field) == value)


def _on_assessment(entity: str, value: str) -> Callable[[AssessmentRecord], bool]:
    field = "name" if entity == AssessmentMetricSearchKey.NAME else "type"
    return lambda one: bool(getattr(one, field) == value)
