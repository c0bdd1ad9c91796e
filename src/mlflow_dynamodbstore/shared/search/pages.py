"""From streams of rows to a page."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Generic, TypeVar

from mlflow.store.tracking import SEARCH_MAX_RESULTS_THRESHOLD

from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.search.filters import Searchable
from mlflow_dynamodbstore.shared.search.ordering import Ordering, Position, bad_token
from mlflow_dynamodbstore.table.table import Table

T = TypeVar("T")
Row = TypeVar("Row", bound=Searchable)

_NO_GROUP = object()


def sort_groups(entries: Iterable[tuple[Any, Row]], ordering: Ordering) -> Iterator[Row]:
    """Rows in full order, from entries that come in order of their group.

    An access path orders rows by one value. Rows with the same value come in any order and are
    sorted here, group by group, so that only one group is held at a time.
    """
    group: list[Row] = []
    name: Any = _NO_GROUP
    for entry_group, row in entries:
        if entry_group != name:
            yield from in_order(group, ordering)
            group, name = [], entry_group
        group.append(row)
    yield from in_order(group, ordering)


def in_order(rows: list[Row], ordering: Ordering) -> list[Row]:
    """Rows sorted in memory."""
    return rows if len(rows) < 2 else sorted(rows, key=_key(ordering))


@dataclass(frozen=True)
class LateStream(Generic[Row]):
    """A stream that need not begin before a position; ``bound`` compares with positions."""

    bound: tuple[Any, ...]
    rows: Iterator[Row]


def merged(
    streams: Sequence[Iterable[Row]],
    ordering: Ordering,
    late: Sequence[LateStream[Row]] = (),
) -> Iterator[Row]:
    """Several ordered streams as one, each read only as far as needed."""
    if late:
        return _merged_with_late(streams, ordering, late)
    if len(streams) == 1:
        return iter(streams[0])
    return heapq.merge(*streams, key=_key(ordering))


def _merged_with_late(
    streams: Sequence[Iterable[Row]], ordering: Ordering, late: Sequence[LateStream[Row]]
) -> Iterator[Row]:
    waiting = sorted(late, key=lambda stream: stream.bound, reverse=True)
    current = merged(streams, ordering) if streams else iter(())
    key = _key(ordering)
    while waiting:
        row = next(current, None)
        if row is not None and key(row) < waiting[-1].bound:
            yield row
            continue
        # Rows of the next stream may come before this one.
        held = [] if row is None else [row]
        current = heapq.merge(chain(held, current), waiting.pop().rows, key=key)
    yield from current


class VolumeStreams(Generic[Row]):
    """The streams of several volumes: those to begin at once, and those that can wait.

    Of a closed volume it may be known from when to when its rows are. In an order by time it is
    asked once that time is reached, and not at all when it has passed.
    """

    def __init__(self, ordering: Ordering, time: str, after: Position | None) -> None:
        self._ordering = ordering
        self._time = time
        self._after = after
        self._streams: list[Iterator[Row]] = []
        self._late: list[LateStream[Row]] = []

    def add(self, stream: Iterator[Row], span: tuple[int, int] | None) -> None:
        """Add the stream of a volume; ``span`` is the first and the last time in it, if known."""
        bound = self._bound(span)
        if span is None or bound is None:
            self._streams.append(stream)
        elif not self._ordering.has_passed(self._after, *span):
            self._late.append(LateStream(bound, stream))

    def can_wait(self, span: tuple[int, int] | None) -> bool:
        """Whether a volume of this span need not be asked at once."""
        return self._bound(span) is not None

    def _bound(self, span: tuple[int, int] | None) -> tuple[Any, ...] | None:
        return None if span is None else self._ordering.bound(self._time, *span)

    def merged(self, table: Table) -> Iterator[Row]:
        """All rows in order; what begins at once begins side by side."""
        streams = self._streams
        if len(streams) > 1:
            streams = table.map(read_first_row, streams)
        return merged(streams, self._ordering, self._late) if streams or self._late else iter(())


def read_first_row(stream: Iterator[T]) -> Iterator[T]:
    """A stream whose first row has been read, so that many can begin side by side."""
    first = list(islice(stream, 1))
    return chain(first, stream)


def page(
    rows: Iterator[Row], ordering: Ordering, after: Position | None, size: int | None
) -> tuple[list[Row], str | None]:
    """The rows that follow a position, and a token when there are more."""
    if after is not None:
        rows = rows_after(rows, ordering, after)
    if size is None:
        return list(rows), None
    found = list(islice(rows, size + 1))
    if len(found) <= size:
        return found, None
    return found[:size], ordering.token(ordering.position(found[size - 1]))


def groups_in_order(
    groups: Iterable[list[Row]], ordering: Ordering, listed_by: str
) -> Iterator[Row]:
    """The rows of groups in order; groups listed by the first key of the order are in order."""
    if ordering.keys[0].name == listed_by:
        return chain.from_iterable(in_order(group, ordering) for group in groups)
    return iter(in_order(list(chain.from_iterable(groups)), ordering))


def rows_after(rows: Iterable[Row], ordering: Ordering, after: Position) -> Iterator[Row]:
    """The rows that follow a position."""
    bound = ordering.comparable(after)
    key = _key(ordering)
    for row in rows:
        try:
            follows = key(row) > bound
        except TypeError as error:
            raise bad_token("holds values of the wrong type") from error
        if follows:
            yield row


def _key(ordering: Ordering) -> Callable[[Row], tuple[Any, ...]]:
    return lambda row: ordering.comparable(ordering.position(row))


def validate_max_results(max_results: int | None, *, allow_null: bool = False) -> None:
    """Refuse a page size that MLflow refuses, in its words."""
    if max_results is None and allow_null:
        return
    if max_results is None or max_results < 1:
        raise invalid(
            f"Invalid value {max_results} for parameter 'max_results' supplied. It must be "
            f"a positive integer"
        )
    if max_results > SEARCH_MAX_RESULTS_THRESHOLD:
        raise invalid(
            f"Invalid value {max_results} for parameter 'max_results' supplied. It must be at "
            f"most {SEARCH_MAX_RESULTS_THRESHOLD}"
        )
