"""From streams of rows to a page."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, TypeVar

from mlflow.store.tracking import SEARCH_MAX_RESULTS_THRESHOLD

from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.search.filters import Searchable
from mlflow_dynamodbstore.shared.search.ordering import Ordering, Position, bad_token

Row = TypeVar("Row", bound=Searchable)

_NO_GROUP = object()


def sort_groups(
    pages: Iterable[Iterable[tuple[Any, Row]]], ordering: Ordering
) -> Iterator[list[Row]]:
    """Rows in full order, from pages of entries that come in order of their group.

    An access path orders rows by one value. Rows with the same value come in any order and are
    sorted here, group by group. The last group of a page is held until the next one is read.
    """
    group: list[Row] = []
    name: Any = _NO_GROUP
    for entries in pages:
        whole: list[Row] = []
        for entry_group, row in entries:
            if entry_group != name:
                whole += in_order(group, ordering)
                group, name = [], entry_group
            group.append(row)
        yield whole
    yield in_order(group, ordering)


def with_others(
    pages: Iterable[list[Row]], others: Callable[[], list[Row]], ordering: Ordering
) -> Iterator[list[Row]]:
    """Pages in order, and among their rows others, which are called for after the first page."""
    key = key_of(ordering)
    pages = iter(pages)
    first = next(pages, [])
    left = in_order(others(), ordering)
    for rows in chain([first], pages):
        end = bisect_right(left, key(rows[-1]), key=key) if rows else 0
        yield in_order([*rows, *left[:end]], ordering) if end else rows
        left = left[end:]
    yield left


def in_order(rows: list[Row], ordering: Ordering) -> list[Row]:
    """Rows sorted in memory."""
    return rows if len(rows) < 2 else sorted(rows, key=key_of(ordering))


def merged(streams: Sequence[Iterable[Row]], ordering: Ordering) -> Iterator[Row]:
    """Several ordered streams as one, each read only as far as needed."""
    if len(streams) == 1:
        return iter(streams[0])
    return heapq.merge(*streams, key=key_of(ordering))


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
    key = key_of(ordering)
    return (row for row in rows if is_after(key(row), bound))


def is_after(position: tuple[Any, ...], bound: tuple[Any, ...]) -> bool:
    """Whether a row follows a position. Raises for a token whose values do not compare."""
    try:
        return position > bound
    except TypeError as error:
        raise bad_token("holds values of the wrong type") from error


def key_of(ordering: Ordering) -> Callable[[Row], tuple[Any, ...]]:
    """The position of a row in an order, to be compared."""
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
