"""Traces as searches, metrics and callers see them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from mlflow.entities import TraceInfo
from mlflow.entities.trace_location import TraceLocation
from mlflow.entities.trace_state import TraceState
from mlflow.tracing.constant import TraceMetadataKey, TraceTagKey

from mlflow_dynamodbstore.mlflow_compat.trace_analytics import (
    TRACE_ANALYTICS_COLUMNS_BY_METADATA_KEY,
)
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.places import TracePlace, trace_place_of
from mlflow_dynamodbstore.shared.plain_values import (
    FIRST_MS,
    LAST_MS,
    MOST_MS,
    readable_number,
    readable_text,
)
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE, TAG
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key, Value
from mlflow_dynamodbstore.traces import assessment_records, facts, items, span_batches
from mlflow_dynamodbstore.traces.assessment_records import AssessmentRecord
from mlflow_dynamodbstore.traces.facts import Facts
from mlflow_dynamodbstore.traces.lookup import TraceLookup
from mlflow_dynamodbstore.traces.overflow import read_whole
from mlflow_dynamodbstore.traces.span_batches import StoredSpan

METADATA = "request_metadata"


class TraceRecord:
    """A trace's own item with its overflow, and with its long tags and assessments."""

    def __init__(
        self,
        table: Table,
        item: Item,
        whole: Item,
        long_tags: dict[str, str],
        long_assessments: dict[str, AssessmentRecord],
    ):
        self.item = item
        self.whole = whole
        self._table = table
        # Not cached_property: it takes a lock, which is expensive for every result of a search.
        self._place: TracePlace | None = None
        self._named: dict[str, Item] | None = None
        self._assessments: list[AssessmentRecord] | None = None
        self._long_tags = long_tags
        self._long_assessments = long_assessments

    @property
    def place(self) -> TracePlace:
        """Where it lies."""
        if self._place is None:
            self._place = trace_place_of(self.item)
        return self._place

    def _of_kind(self, kind: str) -> Item:
        """Its tags, metadata or assessments, as its own item and its overflow hold them."""
        if self._named is None:
            self._named = items.by_kind(self.whole)
        return self._named[kind]

    @property
    def tags(self) -> dict[str, str]:
        """All tags but the name."""
        tags = {**self._of_kind(items.TAG), **self._long_tags}
        if items.OUTSIDE in self.item:
            tags = {key: value for key, value in tags.items() if value is not None}
        return {key: readable_text(value) for key, value in tags.items()}

    @property
    def metadata(self) -> dict[str, str]:
        """All metadata, with session, token usage and cost as MLflow writes them."""
        metadata = self._of_kind(items.METADATA)
        shown = {key: readable_text(value) for key, value in metadata.items()}
        return {**shown, **self._columns_as_metadata()}

    @property
    def assessments(self) -> list[AssessmentRecord]:
        """All assessments, the oldest first."""
        if self._assessments is None:
            found = [
                self._long_assessments.get(name) or assessment_records.unpacked(data, self.item)
                for name, data in self._of_kind(items.ASSESSMENT).items()
            ]
            found.sort(key=lambda record: (record.created, record.assessment_id))
            self._assessments = found
        return self._assessments

    @cached_property
    def facts(self) -> Facts:
        """The facts about its spans."""
        return facts.load(self._table, self.item)

    @cached_property
    def spans(self) -> list[StoredSpan]:
        """The spans; read on first use, unless :func:`with_spans` has read them."""
        return load_spans(self._table, [self])[self.place.trace_id]

    @property
    def session(self) -> str | None:
        session: str | None = self.item.get("session")
        return session

    @property
    def request_time(self) -> int:
        time: int = readable_number(self.item["request_time"], FIRST_MS, LAST_MS) or 0
        return time

    @property
    def duration(self) -> int | None:
        duration: int | None = readable_number(self.item.get("duration"), -MOST_MS, MOST_MS)
        return duration

    def usage(self, column: str) -> Any:
        """A count of tokens, or a cost."""
        return (self.item.get("usage") or {}).get(column)

    def is_linked_to(self, run_id: str) -> bool:
        """Whether it came from a run or was linked to it."""
        source = self.item.get(items.METADATA + TraceMetadataKey.SOURCE_RUN)
        return items.RUN_LINK + run_id in self.item or source == run_id

    def _columns_as_metadata(self) -> dict[str, str]:
        found = {} if self.session is None else {TraceMetadataKey.TRACE_SESSION: self.session}
        usage = self.item.get("usage")
        if usage:
            for key, columns in TRACE_ANALYTICS_COLUMNS_BY_METADATA_KEY.items():
                given = {name: usage[column] for name, column in columns.items() if column in usage}
                if given:
                    found[key] = json.dumps(given)
        return found

    # --- what searches ask ------------------------------------------------------------------------

    def values(self, kind: str, name: str) -> Sequence[Any]:
        """The values of an attribute, tag or metadata key, for filters and orders."""
        value = self._value(kind, name)
        return () if value is None else (value,)

    def _value(self, kind: str, name: str) -> Any:
        if kind == ATTRIBUTE:
            return self._attribute(name)
        if kind == TAG:
            if name == TraceTagKey.TRACE_NAME:
                return self.item.get("name")
            value = self.whole.get(items.TAG + name)
            return self._long_tags.get(name) if value is None else value
        if name == TraceMetadataKey.TRACE_SESSION:
            return self.session
        if name in TRACE_ANALYTICS_COLUMNS_BY_METADATA_KEY:
            return self.metadata.get(name)
        return self.whole.get(items.METADATA + name)

    def _attribute(self, name: str) -> Any:
        if name == "timestamp_ms":
            return self.request_time
        if name == "request_id":
            return self.place.trace_id
        if name == "execution_time_ms":
            return self.duration
        if name == "end_time_ms":
            return self.request_time + (self.duration or 0)
        if name == "status":
            return self.item["state"]
        if name == "experiment_id":
            return int(self.place.experiment_id)
        return self.item.get(name)

    # --- what callers get -------------------------------------------------------------------------

    def to_info(self) -> TraceInfo:
        """The trace as MLflow's entity."""
        tags, place = self.tags, self.place
        if (name := self.item.get("name")) is not None:
            tags[TraceTagKey.TRACE_NAME] = str(name)
        return TraceInfo(
            trace_id=place.trace_id,
            trace_location=TraceLocation.from_experiment_id(place.experiment_id),
            request_time=self.request_time,
            execution_duration=self.duration,
            state=TraceState(self.item["state"]),
            tags=tags,
            trace_metadata=self.metadata,
            client_request_id=self.item.get("client_request_id"),
            request_preview=self.item.get("request_preview"),
            response_preview=self.item.get("response_preview"),
            assessments=[
                assessment_records.entity(record, place.trace_id) for record in self.assessments
            ],
        )

    @property
    def expected_spans(self) -> int:
        """How many spans the client has announced; 0 when it announced none."""
        stats = self.item.get(items.METADATA + TraceMetadataKey.SIZE_STATS)
        return int(json.loads(stats).get("num_spans", 0)) if stats else 0


def records(table: Table, found: Iterable[Item]) -> list[TraceRecord]:
    """Traces with all tags and assessments; one that is gone by then is left out.

    The overflows of all traces take one request, the long tags and assessments another.
    """
    own = list(found)
    wholes = read_whole(table, own)
    own = [item for item, whole in zip(own, wholes, strict=True) if whole is not None]
    traces = [whole.item for whole in wholes if whole is not None]
    wanted: list[tuple[int, str, str, Key]] = []
    for n, item in enumerate(traces):
        if items.OUTSIDE not in item:
            continue
        wanted += [(n, kind, name, key) for kind, name, key in _outside(item)]
    outside = table.get_many(key for *_, key in wanted) if wanted else {}
    tags: list[dict[str, str]] = [{} for _ in traces]
    assessments: list[dict[str, AssessmentRecord]] = [{} for _ in traces]
    for n, kind, name, key in wanted:
        if key not in outside:
            continue  # it was removed
        if kind == items.TAG:
            tags[n][name] = str(outside[key]["value"])
        else:
            whole = large_values.load(table, outside[key], assessment_records.WHOLE)
            head = assessment_records.unpacked(traces[n][items.ASSESSMENT + name], traces[n])
            full = assessment_records.unpacked(whole, outside[key])
            assessments[n][name] = replace(full, valid=head.valid)
    return [
        TraceRecord(table, item, traces[n], tags[n], assessments[n]) for n, item in enumerate(own)
    ]


def record(table: Table, item: Item) -> TraceRecord:
    """One trace; if it is gone by then, what its own item says."""
    found = records(table, [item])
    return found[0] if found else TraceRecord(table, item, item, {}, {})


def find_record(trace_lookup: TraceLookup, trace_id: str) -> TraceRecord | None:
    """A trace by its id, or None when the active workspace has no such trace."""
    table = trace_lookup.table

    def read(place: TracePlace) -> TraceRecord | None:
        item = table.get(place.key)
        found = [] if item is None else records(table, [item])
        return found[0] if found else None

    return trace_lookup.at_place(trace_id, read)


def _outside(item: Item) -> Iterable[tuple[str, str, Key]]:
    """The long tags and assessments of a trace: kind, name and key of each."""
    place = None
    for name, value in item.items():
        if value is None and name.startswith(items.TAG):
            place = place or trace_place_of(item)
            key = name[len(items.TAG) :]
            yield items.TAG, key, place.tag(key)
        elif name.startswith(items.ASSESSMENT) and assessment_records.unpacked(value, item).long:
            place = place or trace_place_of(item)
            key = name[len(items.ASSESSMENT) :]
            yield items.ASSESSMENT, key, place.assessment(key)


def span_keys(item: Item) -> list[Key]:
    """The keys of the items that hold a trace's spans, in the order they were written."""
    place = trace_place_of(item)
    return [place.spans, *(place.more_spans(n + 1) for n in range(item.get("batches", 0)))]


def load_spans(table: Table, traces: Sequence[TraceRecord]) -> dict[str, list[StoredSpan]]:
    """The spans of traces, by trace id; of a span that was sent again, the last."""
    wanted = {trace.place.trace_id: span_keys(trace.item) for trace in traces}
    heads = table.get_many(key for some in wanted.values() for key in some)
    return {
        trace_id: merged_spans(table, [heads[key] for key in some if key in heads])
        for trace_id, some in wanted.items()
    }


def merged_spans(
    table: Table, heads: Iterable[Item], nearby: Mapping[Key, Item] | None = None
) -> list[StoredSpan]:
    """The spans of some items, root spans first, then by start.

    Parts of large values that are in ``nearby`` are not read again.
    """
    found: dict[str, StoredSpan] = {}
    for head in heads:
        rows = _rows(table, head, nearby or {})
        found.update({span.span_id: span for span in span_batches.unpacked(rows)})
    return sorted(found.values(), key=lambda s: (s.parent_id is not None, s.start_ns))


def _rows(table: Table, head: Item, nearby: Mapping[Key, Item]) -> Value:
    parts = large_values.part_keys(head, span_batches.SPANS)
    if parts and all(key in nearby for key in parts):
        return large_values.unpack(
            b"".join(nearby[key]["data"] for key in parts), head, span_batches.SPANS
        )
    return large_values.load(table, head, span_batches.SPANS)


def with_spans(table: Table, traces: Sequence[TraceRecord]) -> Sequence[TraceRecord]:
    """The same traces, with the spans of all of them read together."""
    found = load_spans(table, traces)
    for trace in traces:
        trace.spans = found[trace.place.trace_id]
    return traces
