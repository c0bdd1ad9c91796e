"""Pages of rows: a page is full unless it is the last, and a cursor goes on exactly after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.values import Item
from versioned.errors import InvalidCursor, InvalidInput
from versioned.home import Home

T = TypeVar("T")
DEFAULT_LIMIT = 100
MAX_LIMIT = 10_000


@dataclass(frozen=True)
class Page(Generic[T]):
    """Some of a listing. ``cursor`` asks for the next page; it is None after the last one."""

    items: list[T] = field(default_factory=list)
    cursor: str | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


def check_limit(limit: int) -> int:
    """The limit itself. Raises ``InvalidInput``."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
        raise InvalidInput(f"{limit!r} is not a limit: it is a whole number from 1 to {MAX_LIMIT}")
    return limit


def read_page(
    home: Home, query: Query, limit: int, cursor: str | None, row: Callable[[Item], T]
) -> Page[T]:
    """One page of a query. Raises ``InvalidCursor``."""
    rows: list[T] = []
    while True:
        try:
            page = home.table.query(replace(query, limit=limit - len(rows), cursor=cursor))
        except InvalidRequest as error:
            if cursor is None:
                raise
            raise InvalidCursor(
                f"{cursor!r} is not a cursor of this listing: take it from the page before, and "
                "ask with the same arguments"
            ) from error
        rows += [row(item) for item in page.items]
        cursor = page.cursor
        # A page of the table may be short, even empty, before the end of the listing.
        if cursor is None or len(rows) == limit:
            return Page(rows, cursor)
