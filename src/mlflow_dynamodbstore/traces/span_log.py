"""Logging spans: the first batch begins a trace, later batches join it.

The first batch lies in the trace's item of spans, each later one in a numbered item, so that no
batch waits for another. A batch that begins the trace is written together with its locator. The
trace's own item is written last and makes the spans count. A client that was interrupted sends them
again; a span that is sent twice counts once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from mlflow.entities import Span
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.places import TracePlace, trace_place_of
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.table.contract import Delete
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.traces import facts, items, merging, span_batches
from mlflow_dynamodbstore.traces.changes import Change, TraceChanges
from mlflow_dynamodbstore.traces.creation import TraceCreation, retried_when_moved
from mlflow_dynamodbstore.traces.experiments import TraceExperiments, artifact_tag
from mlflow_dynamodbstore.traces.items import ttl_of
from mlflow_dynamodbstore.traces.lookup import TraceLookup
from mlflow_dynamodbstore.traces.overflow import own_item
from mlflow_dynamodbstore.traces.span_batches import SpanBatch, batch_of


class SpanLog:
    """Writing spans."""

    def __init__(
        self,
        context: Context,
        trace_lookup: TraceLookup,
        trace_changes: TraceChanges,
        trace_experiments: TraceExperiments,
        trace_creation: TraceCreation,
    ) -> None:
        self.table = context.table
        self.trace_lookup = trace_lookup
        self.trace_changes = trace_changes
        self.trace_experiments = trace_experiments
        self.trace_creation = trace_creation

    def log_spans(
        self, location: str, spans: list[Span], tracking_uri: str | None = None
    ) -> list[Span]:
        del tracking_uri  # for other stores
        for trace_id, batch in _batches(spans).items():
            self._log(location, trace_id, batch)
        return spans

    def _log(self, location: str, trace_id: str, batch: SpanBatch) -> None:
        self.trace_lookup.try_cached(
            self.trace_lookup.cached(trace_id),
            lambda known: self.join(known, batch),
            lambda: self._begin(location, trace_id, batch),
        )

    def _begin(self, location: str, trace_id: str, batch: SpanBatch) -> None:
        """Begin a trace with its first spans, or add them to the trace where it already lies."""
        experiment = self.trace_experiments.get(location)
        self.trace_experiments.place(
            experiment,
            trace_id,
            lambda place: retried_when_moved(
                trace_id, lambda: self._begin_at(place, experiment, batch)
            ),
        )

    def _begin_at(self, place: TracePlace, experiment: Item, batch: SpanBatch) -> None:
        ttl = self.trace_experiments.expiry()

        def make(at: TracePlace) -> Item:
            return self._new_trace(at, artifact_tag(experiment, place.trace_id), batch, ttl)

        spans, parts = batch.stored(place.spans, ttl)
        self.table.write(parts)
        located = self.trace_creation.write_locator(place, ttl, [spans])
        if located.is_new:
            item, begun = self.trace_creation.begin(located, make)
            if not begun:
                self.merge(item, batch)
            return
        self.table.write(large_values.removal(spans.item, span_batches.SPANS))
        item, begun = self.trace_creation.find_or_begin(located, make)
        self.join(item, batch, is_first=begun)

    def _new_trace(
        self, place: TracePlace, tags: Mapping[str, str], batch: SpanBatch, ttl: int | None
    ) -> Item:
        """A new trace made of its first spans; writes the items of its long tags and facts."""
        begun = merging.begun_by_spans(items.new_trace(place, int(self.table.clock()), ttl), batch)
        made = _with_batch(begun, batch, {}, tags)
        own = own_item(made.after)
        self.table.write([*made.before, *made.parts, *own.parts])
        return own.item

    def join(self, item: Item, batch: SpanBatch, *, is_first: bool = False) -> None:
        """Add spans to a trace that exists; ``is_first`` if its own item was made of them."""
        merging.check_takes_spans(item)
        has_spans = facts.FACTS in item and not is_first
        number = int(item.get("batches", 0)) + 1 if has_spans else 0
        number, written = self._write(item, batch, number)
        try:
            after = self.merge(item, batch, number)
        except MlflowException:
            self.table.write([Delete(key) for key in written])
            raise
        if ttl_of(after) != ttl_of(item):  # it was given another expiry
            self.table.write(items.expiry_patches(written, ttl_of(after)))

    def _write(self, item: Item, batch: SpanBatch, number: int) -> tuple[int, list[Key]]:
        """Write spans to the first free item of their trace from a number on.

        The first item of all has no number in its key and counts as 0. Returns the item's number
        and the keys of all that was written.
        """
        place, ttl = trace_place_of(item), ttl_of(item)
        while True:
            head = place.more_spans(number) if number else place.spans
            spans, parts = batch.stored(head, ttl)
            self.table.write(parts)
            try:
                self.table.put(spans.item, condition=ABSENT)
            except ConditionFailed:
                self.table.write(large_values.removal(spans.item, span_batches.SPANS))
                number += 1
            else:
                return number, [self.table.schema.key_of(put.item) for put in [spans, *parts]]

    def merge(self, item: Item, batch: SpanBatch, number: int = 0) -> Item:
        """Count written spans in their trace; returns the trace after that."""

        def merged(found: Item) -> Change:
            merging.check_takes_spans(found)
            made = _with_batch(found, batch, facts.load(self.table, found))
            counted = max(found.get("batches", 0), number)
            return replace(made, after={**made.after, "batches": counted}) if counted else made

        # Not followed: these spans are written where the trace lay before it moved.
        return self.trace_changes.change(item, merged, follow=False)


def _with_batch(
    item: Item, batch: SpanBatch, known: facts.Facts, tags: Mapping[str, str] | None = None
) -> Change:
    """The change that adds a batch of spans to a trace."""
    place, ttl = trace_place_of(item), ttl_of(item)
    all_facts = {**known, **batch.facts}
    stored = facts.stored(place.key, all_facts, ttl)
    tagged = items.tag_writes(place, {**(tags or {}), **batch.tags}, ttl)
    after = merging.with_spans({**item, **tagged.attributes}, batch, all_facts)
    return Change(
        {**after, **stored.attributes},
        before=tagged.items,
        parts=stored.parts,
        obsolete=large_values.removal(item, facts.FACTS),
    )


_UNREADABLE = (AttributeError, KeyError, TypeError, ValueError)
"""What MLflow's spans raise when parts of them are missing or of another type."""


def _batches(spans: Iterable[Span]) -> dict[str, SpanBatch]:
    """Spans by their traces; raises for one that cannot be read, before anything is written."""
    by_trace: defaultdict[str, list[Span]] = defaultdict(list)
    try:
        for span in spans:
            if not span.trace_id:
                raise invalid("A span must name its trace.")
            by_trace[span.trace_id].append(span)
        return {trace_id: batch_of(some) for trace_id, some in by_trace.items()}
    except _UNREADABLE as error:
        raise invalid(f"A span cannot be read: {error}.") from error
