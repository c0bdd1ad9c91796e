"""Pages of what MLflow lists with the newest first, and by id among those of one millisecond.

LSI1 holds such lists in exactly this order, so a page is read from where the last one ended,
however long the list is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from boto3.dynamodb.conditions import ConditionBase

from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE
from mlflow_dynamodbstore.shared.search.ordering import Ordering, SortKey, bad_token
from mlflow_dynamodbstore.shared.search.pages import in_order, merged, page, read_first_row
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item

NEWEST_FIRST = Ordering(
    (SortKey(ATTRIBUTE, "created", ascending=False), SortKey(ATTRIBUTE, "listed_id"))
)

After = tuple[int, str]
"""When the last row of a page was created, and its id."""
Stretch = Callable[[After | None], Range]
"""A list in LSI1, from a row on."""
NameOf = Callable[[Item], str]
"""The id of a listed item."""

FILTERED = 1000
"""Items that are read at a time, at least, when only some of them are wanted."""

_INT64 = 1 << 63


class Row(NamedTuple):
    """An item of a list."""

    created: int
    listed_id: str
    item: Item

    def values(self, kind: str, name: str) -> Sequence[Any]:
        del kind
        return (getattr(self, name),)


class Page(NamedTuple):
    """What was asked for: how much, and the rows after which one."""

    size: int
    token: str | None

    @property
    def after(self) -> After | None:
        """The row that the page before this one ended with."""
        position = NEWEST_FIRST.after(self.token)
        if position is None:
            return None
        (_, created), (_, listed_id) = position
        if not (isinstance(created, int) and isinstance(listed_id, str)):
            raise bad_token("holds values of the wrong type")
        if not -_INT64 < created < _INT64:
            raise bad_token("holds a time that is none")
        return created, listed_id


def listed(
    table: Table,
    pk: str,
    stretches: Iterable[Stretch],
    name_of: NameOf,
    wanted: Page,
    where: ConditionBase | None = None,
) -> tuple[list[Item], str | None]:
    """A page of several lists taken together, and a token when there are more."""
    after = wanted.after
    # One row more tells whether there are more, and the last one of the page before is in it.
    limit = wanted.size + 2
    if where is not None:
        limit = max(limit, FILTERED)

    def begun(stretch: Stretch) -> Iterator[Row]:
        within = stretch(after).on("lsi1sk")
        query = Query(pk, within, index="LSI1", limit=limit, filter=where)
        return read_first_row(_row(item, name_of) for item in table.items(query))

    rows = merged(table.map(begun, list(stretches)), NEWEST_FIRST)
    return _page(rows, wanted)


def sorted_page(
    items: Iterable[Item], name_of: NameOf, wanted: Page
) -> tuple[list[Item], str | None]:
    """A page of a few items that were found in another way."""
    rows = in_order([_row(item, name_of) for item in items], NEWEST_FIRST)
    return _page(iter(rows), wanted)


def _page(rows: Iterator[Row], wanted: Page) -> tuple[list[Item], str | None]:
    found, token = page(rows, NEWEST_FIRST, NEWEST_FIRST.after(wanted.token), wanted.size)
    return [row.item for row in found], token


def _row(item: Item, name_of: NameOf) -> Row:
    return Row(int(item["created"]), name_of(item), item)
