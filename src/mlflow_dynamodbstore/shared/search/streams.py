"""Streams of pages, read side by side.

A stream brings the rows of one partition page by page, a request each. Of several streams none is
read alone while others will soon be needed too, so a search of many partitions waits about as often
as a search of one.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Generic, TypeVar

from mlflow_dynamodbstore.shared.search.filters import Searchable
from mlflow_dynamodbstore.shared.search.ordering import Ordering, Position
from mlflow_dynamodbstore.shared.search.pages import key_of
from mlflow_dynamodbstore.shared.volume_states import Span
from mlflow_dynamodbstore.table.table import Table

T = TypeVar("T")
Row = TypeVar("Row", bound=Searchable)

SMALLEST_PAGE = 16
MOST_AT_ONCE = 16
"""Streams of which all pages are wanted that are read at once; the pages are held in memory."""


class LastPage(list[T]):
    """The last page of a stream, where that is known when it is read."""


def likely_share(rows: float, streams: int) -> int:
    """How many of the first rows of a merge one of its streams is to read, with some to spare.

    Where rows are spread at random, one stream in a thousand has more. No stream reads less than
    ``SMALLEST_PAGE``, unless it is the only one.
    """
    if streams < 2:
        return math.ceil(rows)
    mean = rows / streams
    return max(SMALLEST_PAGE, math.ceil(mean + 3 * math.sqrt(mean)))


def side_by_side(
    table: Table, streams: Iterable[Iterable[Sequence[T]]], wanted: int, *, sample: bool = False
) -> list[Stream[T]]:
    """The rows of each stream, such that whoever needs a row reads on in other streams too.

    These are the streams of which no more than their part of ``wanted`` rows is left. With
    ``sample``, the first page of the first stream is read before all others, which may learn from
    it how much to read; then it is read on with them.
    """
    own: list[Stream[T]] = []
    begun = False

    def read_on() -> None:
        nonlocal begun
        part = wanted // len(own)
        table.map(Stream.read_page, [one for one in own if not begun or one.has_at_most(part)])
        begun = True

    own += [Stream(iter(pages), read_on) for pages in streams]
    if sample:
        own[0].read_page()
    return own


class Stream(Iterator[T]):
    """The rows of one stream."""

    def __init__(self, pages: Iterator[Sequence[T]], read_on: Callable[[], None]) -> None:
        self._pages = pages
        self._read_on = read_on
        self._rows: deque[T] = deque()
        self._is_ended = False

    def __next__(self) -> T:
        while not self._rows:
            if self._is_ended:
                raise StopIteration
            self._read_on()
        return self._rows.popleft()

    def has_at_most(self, rows: int) -> bool:
        """Whether no more rows are left than that, before another page is read."""
        return not self._is_ended and len(self._rows) <= rows

    def read_page(self) -> None:
        """Read the next page, if there is one."""
        page = next(self._pages, None)
        self._is_ended = page is None or isinstance(page, LastPage)
        self._rows.extend(page or ())


def all_pages(table: Table, streams: Iterable[Iterable[T]]) -> Iterator[T]:
    """The pages of all streams in any order, those of some streams read side by side."""
    waiting = map(iter, streams)
    begun: list[Iterator[T]] = [*islice(waiting, MOST_AT_ONCE)]
    while begun:
        found = table.map(lambda pages: next(pages, None), begun)
        yield from (page for page in found if page is not None)
        begun = [pages for pages, page in zip(begun, found, strict=True) if page is not None]
        begun += islice(waiting, MOST_AT_ONCE - len(begun))


@dataclass(frozen=True)
class LateStream(Generic[Row]):
    """A stream that need not begin before a position; the bounds of its rows compare with those."""

    begins: tuple[Any, ...]
    ends: tuple[Any, ...]
    pages: Iterator[Sequence[Row]]


class VolumeStreams(Generic[Row]):
    """The streams of several volumes: those to begin at once, and those that can wait.

    Of a closed volume it may be known from when to when its rows are. In an order by time it is
    asked once that time is reached, and not at all when it has passed.
    """

    def __init__(self, ordering: Ordering, time: str, after: Position | None) -> None:
        self._ordering = ordering
        self._time = time
        self._after = after
        self._now: list[Iterator[Sequence[Row]]] = []
        self._late: list[LateStream[Row]] = []

    def add(self, pages: Iterator[Sequence[Row]], span: Span | None = None) -> None:
        """Add the stream of a volume; ``span`` is the first and the last time in it, if known."""
        if span is None or not self.can_wait(span):
            self._now.append(pages)
            return
        first, last = span
        begins, ends = self._bound(first, last), self._bound(last, first)
        assert begins is not None
        assert ends is not None
        self._late.append(LateStream(begins, ends, pages))

    def has_passed(self, span: Span | None) -> bool:
        """Whether a volume of this span need not be asked at all."""
        return (
            span is not None
            and self._bound(*span) is not None
            and self._ordering.has_passed(self._after, *span)
        )

    def can_wait(self, span: Span | None) -> bool:
        """Whether a volume of this span need not be asked at once."""
        begins = None if span is None else self._bound(*span)
        if begins is None or self._after is None:
            return begins is not None
        return begins > self._ordering.comparable(self._after)

    def _bound(self, first: int, last: int) -> tuple[Any, ...] | None:
        return self._ordering.bound(self._time, first, last)

    def merged(self, table: Table, wanted: int, *, sample: bool = False) -> Iterator[Row]:
        """All rows in order, the streams read as :func:`side_by_side` says."""
        key = key_of(self._ordering)
        waiting = sorted(self._late, key=lambda stream: stream.begins, reverse=True)
        if len(self._now) == 1:
            rows: Iterator[Row] = chain.from_iterable(self._now[0])
        else:
            sample = sample and bool(self._now)
            rows = heapq.merge(*side_by_side(table, self._now, wanted, sample=sample), key=key)
        while waiting:
            row = next(rows, None)
            if row is not None and key(row) < waiting[-1].begins:
                yield row
                continue
            # Rows of the next stream may come before this one, and those of others soon after.
            held = [] if row is None else [row]
            due = [waiting.pop()]
            while waiting and waiting[-1].begins <= due[0].ends:
                due.append(waiting.pop())
            begun = side_by_side(table, [stream.pages for stream in due], wanted)
            rows = heapq.merge(chain(held, rows), *begun, key=key)
        yield from rows
