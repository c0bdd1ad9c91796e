"""Metrics over traces, spans and assessments: counts, sums, averages, percentiles.

All of them are computed from the traces' own items, read in order of time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from mlflow.entities.trace_metrics import (
    AggregationType,
    MetricAggregation,
    MetricDataPoint,
    MetricViewType,
)
from mlflow.store.entities.paged_list import PagedList
from mlflow.store.tracking import MAX_RESULTS_QUERY_TRACE_METRICS
from mlflow.tracing.constant import TraceMetricKey

from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.traces.filters import TraceFilter
from mlflow_dynamodbstore.traces.metric_rows import (
    COSTS,
    MetricFilters,
    Row,
    parse_filters,
    rows_of,
)
from mlflow_dynamodbstore.traces.records import TraceRecord
from mlflow_dynamodbstore.traces.search import TraceSearch

TIME_BUCKET = "time_bucket"

Group = tuple[Any, ...]


@dataclass(frozen=True)
class MetricQuery:
    """A query, without its experiments."""

    view: MetricViewType
    metric: str
    aggregations: Sequence[MetricAggregation]
    dimensions: Sequence[str]
    filters: MetricFilters
    interval_ms: int | None
    since: int | None
    until: int | None

    @property
    def by_span_time(self) -> bool:
        """Whether rows have the time of their span, as costs do, and not that of their trace."""
        return self.view == MetricViewType.SPANS and self.metric in COSTS

    def traces(self) -> TraceFilter:
        """The filter for traces that may contribute."""
        bounds = (None, None) if self.by_span_time else (self.since, self.until)
        return TraceFilter.in_period(*bounds, tests=self.filters.traces)

    def rows(self, trace: TraceRecord) -> Iterator[Row]:
        """The rows that a trace contributes."""
        for row in rows_of(trace, self.view, self.metric, self.filters):
            if not self.by_span_time or self._is_in_time(row.time_ns // 1_000_000):
                yield row

    def _is_in_time(self, time_ms: int) -> bool:
        since, until = self.since, self.until
        return (since is None or time_ms >= since) and (until is None or time_ms <= until)

    def group(self, row: Row) -> Group | None:
        """The group a row belongs to, or None when it lacks a dimension."""
        values = [row.dimensions.get(name) for name in self.dimensions]
        if any(value is None for value in values):
            return None
        if self.interval_ms is None:
            return tuple(values)
        return (row.time_ns // 1_000_000 // self.interval_ms * self.interval_ms, *values)


class TraceMetrics:
    """Aggregated metrics."""

    def __init__(self, trace_search: TraceSearch) -> None:
        self.trace_search = trace_search

    def query_trace_metrics(
        self,
        experiment_ids: list[str],
        view_type: MetricViewType,
        metric_name: str,
        aggregations: list[MetricAggregation],
        dimensions: list[str] | None = None,
        filters: list[str] | None = None,
        time_interval_seconds: int | None = None,
        start_time_ms: int | None = None,
        end_time_ms: int | None = None,
        max_results: int = MAX_RESULTS_QUERY_TRACE_METRICS,
        page_token: str | None = None,
    ) -> PagedList[MetricDataPoint]:
        # Imported here: the module brings MLflow's whole SQL schema with it.
        from mlflow.store.tracking.utils.sql_trace_metrics_utils import (  # noqa: PLC0415
            validate_query_trace_metrics_params,
        )

        del page_token  # MLflow returns none
        validate_query_trace_metrics_params(view_type, metric_name, aggregations, dimensions)
        if time_interval_seconds and (start_time_ms is None or end_time_ms is None):
            raise invalid(
                "start_time_ms and end_time_ms are required if time_interval_seconds is set"
            )
        query = MetricQuery(
            view=view_type,
            metric=metric_name,
            aggregations=aggregations,
            dimensions=dimensions or [],
            filters=parse_filters(filters or [], view_type),
            interval_ms=time_interval_seconds * 1000 if time_interval_seconds else None,
            since=start_time_ms,
            until=end_time_ms,
        )
        searched = self.trace_search.searched_experiments(experiment_ids)
        groups = _grouped(query, self.trace_search.matching_traces(searched, query.traces()))
        points = (_point(query, group, groups[group]) for group in sorted(groups))
        return PagedList([point for point in points if point][:max_results], None)


def _grouped(query: MetricQuery, traces: Iterable[TraceRecord]) -> dict[Group, list[Any]]:
    groups: defaultdict[Group, list[Any]] = defaultdict(list)
    for trace in traces:
        for row in query.rows(trace):
            group = query.group(row)
            if group is not None:
                groups[group].append(row.value)
    return groups


def _point(query: MetricQuery, group: Group, values: list[Any]) -> MetricDataPoint | None:
    if query.metric == TraceMetricKey.SESSION_COUNT:
        values = list(set(values))
    names = list(query.dimensions)
    parts: list[Any] = list(group)
    if query.interval_ms is not None:
        names.insert(0, TIME_BUCKET)
        parts[0] = datetime.fromtimestamp(parts[0] / 1000, tz=timezone.utc).isoformat()
    return MetricDataPoint(
        dimensions=dict(zip(names, parts, strict=True)),
        metric_name=query.metric,
        values={str(one): _aggregate(one, values) for one in query.aggregations},
    )


def _aggregate(aggregation: MetricAggregation, values: list[Any]) -> Any:
    if aggregation.aggregation_type == AggregationType.PERCENTILE:
        return percentile(values, aggregation.percentile_value or 0.0)
    return _AGGREGATES[aggregation.aggregation_type](values)


def _total(values: list[Any]) -> Any:
    """A sum that does not depend on the order; the sum of integers is an integer."""
    return sum(values) if all(isinstance(value, int) for value in values) else math.fsum(values)


_AGGREGATES: dict[AggregationType, Callable[[list[Any]], Any]] = {
    AggregationType.COUNT: len,
    AggregationType.SUM: _total,
    AggregationType.AVG: lambda values: _total(values) / len(values),
    AggregationType.MIN: min,
    AggregationType.MAX: max,
}


def percentile(values: Sequence[float], percent: float) -> float:
    """A percentile with linear interpolation between the two nearest values."""
    ordered = sorted(values)
    position = percent / 100 * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)
