"""The history of one metric, read in order without holding it all.

History items are in the order of their first points. Items of several writers, or of one that
logged backwards, may overlap, and a point may have been logged twice. Here points come in order by
step, time and value, each once.

Nothing here reads more than it needs: a page continues where the last one ended, and a sample of a
long history counts by keys alone and then reads the items of its points.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import merge
from itertools import pairwise
from typing import NamedTuple

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.places import RunPlace
from mlflow_dynamodbstore.table.contract import MAX_BATCH_GET, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import TTL, Item, Key
from mlflow_dynamodbstore.tracking.log_entries import POINTS_IN_PACK, RunLog
from mlflow_dynamodbstore.tracking.points import (
    Extent,
    Point,
    Span,
    StepTime,
    in_order,
    latest_extent,
    merged_extent,
    order,
    points_of,
    span_of,
    unfolded_item,
)

CHUNK_POINTS = 10_000
"""How many points are unpacked at a time."""
FIRST_PAGE = 16
"""How many items are asked for while it is not known how many points they hold."""
BLOCK_POINTS = 1_000
"""How many points a part of a long history holds at least."""
HELD_POINTS, HELD_ITEMS = 200_000, 20_000
"""How many points, in how many items, are held for a sample; with more, keys are counted first."""
_FIRST_TIME = -(1 << 63)

SpannedItem = tuple[Span, Item]


class Chunk(NamedTuple):
    """Points in order, each once, and the extents of the items they and later ones come from."""

    points: list[Point]
    spans: list[Span]


@dataclass
class Block:
    """Neighbouring items, all of whose points come before those of the next block."""

    low: str
    high: str
    last: StepTime
    count: int
    is_certain: bool  # whether the count is right by the keys alone
    is_packed: bool  # whether an item holds several points

    def takes(self, span: Span) -> bool:
        """Whether the item that follows belongs to this block."""
        return self.count < BLOCK_POINTS or span.first <= self.last

    def add(self, sk: str, span: Span, inside: bool) -> None:
        packed = self.is_packed or span.size > 1
        # Single points of one step and time differ in their keys; a pack may repeat its neighbours.
        apart = span.first > self.last or not packed
        self.is_certain = self.is_certain and inside and apart
        self.is_packed = packed
        self.high = sk
        self.last = max(self.last, span.last)
        self.count += span.size


@dataclass(frozen=True)
class Steps:
    """A range of steps, both ends included."""

    first: int | None = None
    last: int | None = None

    def hold(self, span: Span) -> bool:
        """Whether all points of an item lie in the range."""
        begins = self.first is None or span.first[0] >= self.first
        return begins and (self.last is None or span.last[0] <= self.last)

    def cut(self, points: list[Point]) -> list[Point]:
        """Those of some ordered points that lie in the range."""
        start = 0 if self.first is None else bisect_left(points, (self.first,))
        end = len(points) if self.last is None else bisect_left(points, (self.last + 1,))
        return points[start:end]


ALL_STEPS = Steps()


@dataclass(frozen=True)
class Series:
    """The history of one metric of one run.

    The log is read before the history: a point that is folded meanwhile is then found in both.
    """

    table: Table
    run: RunPlace
    name: str
    log: RunLog = field(default_factory=RunLog)

    def extent(self) -> Extent | None:
        """Its greatest point by step, time and value, and whether its times rise with its steps."""
        row = self.table.get(Key(self.run.pk, run_keys.run_metric(self.run.run_id, self.name)))
        logged = self.log.extents().get(self.name)
        extents = [latest_extent(row)] if row is not None else []
        if logged is not None:
            extents.append(logged)
        return merged_extent(extents) if extents else None

    @property
    def is_growing(self) -> bool:
        """Whether a part of it is in the log."""
        return bool(self._unfolded)

    @cached_property
    def _unfolded(self) -> list[SpannedItem]:
        """The points in the log, as the history items that they will become."""
        points = self.log.points().get(self.name, [])
        items = [
            unfolded_item(self.run, self.name, some) for some in batched(points, POINTS_IN_PACK)
        ]
        return [(span_of(item["SK"]), item) for item in items]

    def chunks(
        self,
        low: StepTime | None = None,
        last_step: int | None = None,
        *,
        want: int | None = None,
        density: float | None = None,
    ) -> Iterator[Chunk]:
        """The points of the items from a step and time on, in order, in lists.

        ``want`` is how many points the caller needs and ``density`` how many an item holds, so
        that little more is read.
        """
        return ordered(self._pages(self._within(low, last_step), want, density))

    def start(self, low: StepTime) -> StepTime:
        """The step and time of the first item that reaches a step and time.

        A pack may begin before it and reach it. While a history is in order only the item just
        before can; otherwise all earlier keys are read.
        """
        before = Range(self._within().low, self._within(low).low)
        extent = self.extent()
        if extent is None:
            return low
        if not extent.in_order:
            spans = [span for _, span in self._keys_and_spans(before)]
        else:
            query = Query(self.run.pk, where=before.on(), descending=True, limit=1)
            spans = [span_of(item["SK"]) for item in self.table.query(query).items]
            spans += [span for span, item in self._unfolded if item["SK"] in before]
        return min((span.first for span in spans if span.last >= low), default=low)

    # --- sampling -------------------------------------------------------------------------------

    def sample(self, count: int, steps: Steps = ALL_STEPS) -> list[Point]:
        """At most ``count`` points spread evenly over a range of steps, the last one always."""
        if count == 1 and steps == ALL_STEPS:
            extent = self.extent()
            return [] if extent is None else [extent.top]
        low = None if steps.first is None else self.start(first_of(steps.first))
        within = self._within(low, steps.last)
        pages = self._few_pages(within)
        if pages is None:
            return self._sample_of_many(count, steps, within)
        points = steps.cut([point for chunk in ordered(pages) for point in chunk.points])
        return [points[n] for n in sampled(len(points), count)]

    def _few_pages(self, within: Range) -> list[list[SpannedItem]] | None:
        """The items of a range, or None when they are too many to be held."""
        pages: list[list[SpannedItem]] = []
        items, points = 0, 0
        for page in self._pages(within):
            items += len(page)
            points += sum(span.size for span, _ in page)
            if points > HELD_POINTS or items > HELD_ITEMS:
                return None
            pages.append(page)
        return pages

    def _sample_of_many(self, count: int, steps: Steps, within: Range) -> list[Point]:
        """A sample of a history too long to be held: count by keys, then read its points."""
        blocks = list(self._blocks(within, steps))
        wanted = sampled(sum(block.count for block in blocks), count)
        offsets: list[tuple[Block, list[int]]] = []
        start, n = 0, 0
        for block in blocks:
            end = start + block.count
            first = n
            while n < len(wanted) and wanted[n] < end:
                n += 1
            if n > first:
                offsets.append((block, [index - start for index in wanted[first:n]]))
            start = end
        return [p for some in batched(offsets, MAX_BATCH_GET) for p in self._picked(some, steps)]

    def _blocks(self, within: Range, steps: Steps) -> Iterator[Block]:
        block: Block | None = None
        for sk, span in self._keys_and_spans(within):
            inside = steps.hold(span)
            if block is not None and block.takes(span):
                block.add(sk, span, inside)
                continue
            if block is not None:
                yield self._counted(block, steps)
            block = Block(sk, sk, span.last, span.size, inside, span.size > 1)
        if block is not None:
            yield self._counted(block, steps)

    def _counted(self, block: Block, steps: Steps) -> Block:
        """A block with its right count; points that may repeat or lie outside have to be read."""
        if block.is_certain:
            return block
        return replace(block, count=sum(len(points) for points in self._read(block, steps)))

    def _picked(self, wanted: Sequence[tuple[Block, list[int]]], steps: Steps) -> Iterator[Point]:
        """The points at some offsets of some blocks."""
        lone = [Key(self.run.pk, block.low) for block, _ in wanted if block.low == block.high]
        items = self.table.get_many(lone)
        items |= {Key(self.run.pk, item["SK"]): item for _, item in self._unfolded}
        for block, offsets in wanted:
            item = items.get(Key(self.run.pk, block.low))
            if item is not None:
                points = steps.cut(points_of(item, span_of(block.low)))
                yield from (points[n] for n in offsets if n < len(points))
                continue
            start = 0
            for points in self._read(block, steps):
                end = start + len(points)
                yield from (points[n - start] for n in offsets if start <= n < end)
                start = end

    def _read(self, block: Block, steps: Steps) -> Iterator[list[Point]]:
        pages = self._pages(Range(block.low, block.high))
        return (steps.cut(chunk.points) for chunk in ordered(pages))

    # --- reading --------------------------------------------------------------------------------

    def _within(self, low: StepTime | None = None, last_step: int | None = None) -> Range:
        whole = run_keys.metric_history(self.run.run_id, self.name, last_step=last_step)
        if low is None:
            return whole
        return Range(run_keys.run_metric_point(self.run.run_id, self.name, *low), whole.high)

    def _pages(
        self, within: Range, want: int | None = None, density: float | None = None
    ) -> Iterator[list[SpannedItem]]:
        """History items; a page has about as many as hold the points still wanted."""
        if within.is_empty:
            return
        query = Query(self.run.pk, where=within.on())
        unfolded = [entry for entry in self._unfolded if entry[1]["SK"] in within]
        items, points = 0, 0
        least = FIRST_PAGE if density is None else 1
        while True:
            if want is not None:
                query = replace(query, limit=max(least, _items_for(want - points, density)))
            page = self.table.query(query)
            entries = [(span_of(item["SK"]), item) for item in page.items]
            if unfolded:
                reached = page.items[-1]["SK"] if page.items else ""
                ready = [e for e in unfolded if page.cursor is None or e[1]["SK"] <= reached]
                unfolded = unfolded[len(ready) :]
                entries = sorted([*entries, *ready], key=lambda entry: str(entry[1]["SK"]))
            yield entries
            if page.cursor is None:
                return
            query = replace(query, cursor=page.cursor)
            items += len(entries)
            points += sum(span.size for span, _ in entries)
            density = points / items if items else None
            least *= 2

    def _keys_and_spans(self, within: Range) -> Iterator[tuple[str, Span]]:
        """The keys of history items, and the extents in them."""
        # A key does not say when its item expires, so the filter leaves out expired items.
        alive = Attr(TTL).not_exists() | Attr(TTL).gt(int(self.table.clock()))
        query = Query(self.run.pk, where=within.on(), filter=alive, keys_only=True)
        stored = (str(item["SK"]) for item in self.table.items(query))
        unfolded = (str(item["SK"]) for _, item in self._unfolded if item["SK"] in within)
        for sk in merge(stored, unfolded):
            yield sk, span_of(sk)


def is_in_order(table: Table, run: RunPlace, name: str, more: Iterable[Item] = ()) -> bool:
    """Whether a history, with those of further items that are its own, can be read by its steps.

    Its times rise with its steps, and of the points before it each item repeats all that lie after
    its first one, or none.
    """
    within = run_keys.metric_history(run.run_id, name)
    stored = table.items(Query(run.pk, where=within.on()))
    by_key = sorted((item for item in more if item["SK"] in within), key=_sort_key)
    held: list[Point] = []
    for item in merge(stored, by_key, key=_sort_key):
        span = span_of(item["SK"])
        points = points_of(item, span)
        before = bisect_left(held, span.first)
        if not {*map(order, held[before:])} <= {*map(order, points)}:
            return False
        times = [point.timestamp for point in (*held[max(0, before - 1) : before], *points)]
        if any(one > other for one, other in pairwise(times)):
            return False
        held = points
    return True


def _sort_key(item: Item) -> str:
    return str(item["SK"])


def first_of(step: int) -> StepTime:
    """The first time at a step."""
    return (step, _FIRST_TIME)


def ordered(pages: Iterable[list[SpannedItem]]) -> Iterator[Chunk]:
    """The points of history items in order, each once.

    Every later item begins at or after the last one read, so what lies before that is final.
    """
    held: list[Point] = []
    spans: list[Span] = []
    for entries in (some for page in pages for some in _slices(page)):
        for span, item in entries:
            spans.append(span)
            held += points_of(item, span)
        held = in_order(held)
        edge = spans[-1].first
        final = bisect_left(held, edge)
        if final:
            yield Chunk(held[:final], spans)
            held = held[final:]
            spans = [span for span in spans if span.last >= edge]
    if held:
        yield Chunk(held, spans)


def _slices(page: list[SpannedItem]) -> Iterator[list[SpannedItem]]:
    """The items of a page, as many at a time as are unpacked together."""
    start, points = 0, 0
    for n, (span, _) in enumerate(page, 1):
        points += span.size
        if points >= CHUNK_POINTS:
            yield page[start:n]
            start, points = n, 0
    if start < len(page):
        yield page[start:]


def _items_for(points: int, density: float | None) -> int:
    """How many items to read: the first may be known and the last is not yet final."""
    return 0 if density is None else math.ceil(points / density) + 3


def sampled(total: int, count: int) -> Sequence[int]:
    """Which of ``total`` ordered points make a sample of ``count``.

    As in MLflow's SQL store: the first point of each of ``count`` even buckets, larger ones first,
    but for the last bucket the very last point.
    """
    if total <= count:
        return range(total)
    size, larger = divmod(total, count)
    firsts = [n * size + min(n, larger) for n in range(count - 1)]
    return [*firsts, total - 1]
