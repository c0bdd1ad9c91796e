"""How strongly the matches of two filters correlate."""

from __future__ import annotations

from mlflow.store.analytics import trace_correlation
from mlflow.tracing.analysis import TraceFilterCorrelationResult

from mlflow_dynamodbstore.traces.filters import parse_filter
from mlflow_dynamodbstore.traces.search import TraceSearch


class Correlation:
    """Correlation between filters."""

    def __init__(self, trace_search: TraceSearch) -> None:
        self.trace_search = trace_search

    def calculate_trace_filter_correlation(
        self,
        experiment_ids: list[str],
        filter_string1: str,
        filter_string2: str,
        base_filter: str | None = None,
    ) -> TraceFilterCorrelationResult:
        searched = self.trace_search.searched_experiments(experiment_ids)
        one = self._matching_ids(searched, _both(base_filter, filter_string1))
        other = self._matching_ids(searched, _both(base_filter, filter_string2))
        total = len(self._matching_ids(searched, base_filter))
        joint = len(one & other)
        npmi = trace_correlation.calculate_npmi_from_counts(joint, len(one), len(other), total)
        return TraceFilterCorrelationResult(
            npmi=npmi.npmi,
            npmi_smoothed=npmi.npmi_smoothed,
            filter1_count=len(one),
            filter2_count=len(other),
            joint_count=joint,
            total_count=total,
        )

    def _matching_ids(self, experiment_ids: list[str], filter_string: str | None) -> set[str]:
        found = self.trace_search.matching_traces(experiment_ids, parse_filter(filter_string))
        return {trace.place.trace_id for trace in found}


def _both(base: str | None, filter_string: str) -> str:
    return f"{base} and {filter_string}" if base else filter_string
