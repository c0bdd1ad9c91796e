"""Fetching spans from X-Ray and keeping them.

X-Ray keeps spans for 30 days. Fetched spans are stored as the trace's own and read from here
afterwards; :meth:`XRaySpans.fill_cache` fetches the rest before X-Ray deletes them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from mlflow.entities import Span

from mlflow_dynamodbstore.mlflow_compat.validation import parse_experiment_ids
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.places import trace_place_of
from mlflow_dynamodbstore.shared.policies import DAY, XRAY_REGION
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.traces import span_batches
from mlflow_dynamodbstore.traces.facts import FACTS
from mlflow_dynamodbstore.traces.filters import TraceFilter
from mlflow_dynamodbstore.traces.items import keeps_spans_here, ttl_of
from mlflow_dynamodbstore.traces.lookup import TraceNotFound
from mlflow_dynamodbstore.traces.records import merged_spans
from mlflow_dynamodbstore.traces.search import TraceSearch
from mlflow_dynamodbstore.traces.span_batches import batch_of
from mlflow_dynamodbstore.traces.span_log import SpanLog
from mlflow_dynamodbstore.traces.xray import MOST_TRACES_AT_ONCE, XRay

XRAY_VARIABLE = "MLFLOW_DYNAMODBSTORE_XRAY_REGION"
"""Environment variable that overrides the setting."""
XRAY_DAYS = 30


@dataclass(frozen=True)
class CacheProgress:
    """The progress of filling the cache."""

    looked_at: int = 0
    stored_already: int = 0
    cached: int = 0
    not_in_xray: int = 0


class XRaySpans:
    """Spans of traces that X-Ray has and this table lacks."""

    def __init__(
        self,
        context: Context,
        experiment_lookup: ExperimentLookup,
        trace_search: TraceSearch,
        span_log: SpanLog,
    ) -> None:
        self.table = context.table
        self.policies = context.policies
        self.experiment_lookup = experiment_lookup
        self.trace_search = trace_search
        self.span_log = span_log
        self._clients: BoundedCache[str, XRay] = BoundedCache()

    @property
    def is_on(self) -> bool:
        """Whether a region of X-Ray is configured."""
        return self._xray() is not None

    def _xray(self) -> XRay | None:
        """X-Ray in the configured region, or None."""
        region = os.environ.get(XRAY_VARIABLE) or self.policies.get(XRAY_REGION)
        if not region:
            return None
        xray = self._clients.get(str(region))
        if xray is None:
            xray = XRay.in_region(str(region))
            self._clients.put(str(region), xray)
        return xray

    def fetch_missing(self, traces: Sequence[Item]) -> set[str]:
        """Fetch and store the spans of traces that have none; returns the ids of those found."""
        missing = [trace_place_of(item).trace_id for item in traces if _lacks_spans(item)]
        xray = self._xray() if missing else None
        if xray is None:
            return set()
        by_id = {trace_place_of(item).trace_id: item for item in traces}
        found: set[str] = set()
        for some in batched(missing, MOST_TRACES_AT_ONCE):
            for trace_id, spans in xray.spans_of(some).items():
                if self._store(by_id[trace_id], spans):
                    found.add(trace_id)
        return found

    def _store(self, item: Item, spans: list[Span]) -> bool:
        """Store fetched spans as the trace's own; False when the trace is gone."""
        batch = batch_of(spans)
        head, parts = batch.stored(trace_place_of(item).spans, ttl_of(item))
        self.table.write(parts)
        try:
            self.table.put(head.item, condition=ABSENT)
        except ConditionFailed as refused:
            self.table.write(large_values.removal(head.item, span_batches.SPANS))
            known = merged_spans(self.table, [refused.old] if refused.old else [])
            are_stored = batch.spans.keys() <= {span.span_id for span in known}
        else:
            are_stored = True
        try:
            if are_stored:
                self.span_log.merge(item, batch)
            else:  # other spans have arrived meanwhile
                self.span_log.join(item, batch)
        except TraceNotFound:
            self.table.delete(trace_place_of(item).spans)
            return False
        return True

    def fill_cache(
        self,
        experiment_ids: Iterable[str] | None = None,
        days: int = XRAY_DAYS,
        progress: Callable[[CacheProgress], None] = lambda _: None,
    ) -> CacheProgress:
        """Fetch the spans of all traces of the last days that have none here.

        Named experiments may be of any workspace. It can be interrupted and run again: stored spans
        are not fetched again.
        """
        if experiment_ids is None:
            experiment_ids = self.experiment_lookup.ids()
        searched = [str(number) for number in parse_experiment_ids([*experiment_ids])]
        recent = TraceFilter.in_period(int((self.table.clock() - days * DAY) * 1000))
        found = self.trace_search.matching_traces(searched, recent)
        reached = CacheProgress()
        for some in batched(found, MOST_TRACES_AT_ONCE):
            lacking = [trace.item for trace in some if _lacks_spans(trace.item)]
            cached = len(self.fetch_missing(lacking))
            reached = replace(
                reached,
                looked_at=reached.looked_at + len(some),
                stored_already=reached.stored_already + len(some) - len(lacking),
                cached=reached.cached + cached,
                not_in_xray=reached.not_in_xray + len(lacking) - cached,
            )
            progress(reached)
        return reached


def _lacks_spans(item: Item) -> bool:
    """Whether a trace has no spans here and none in an archive."""
    return FACTS not in item and keeps_spans_here(item)
