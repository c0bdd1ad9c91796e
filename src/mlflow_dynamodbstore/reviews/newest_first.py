"""Pages of lists that MLflow sorts newest first, and by id within a millisecond.

LSI1 holds these lists in the same order, so a page is read from where the last one ended, however
long the list is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from boto3.dynamodb.conditions import ConditionBase
from mlflow.store.tracking import SEARCH_MAX_RESULTS_DEFAULT

from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE
from mlflow_dynamodbstore.shared.search.ordering import Ordering, SortKey, bad_token
from mlflow_dynamodbstore.shared.search.pages import (
    in_order,
    merged,
    page,
    validate_max_results,
)
from mlflow_dynamodbstore.shared.search.streams import side_by_side
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item

NEWEST_FIRST = Ordering(
    (SortKey(ATTRIBUTE, "created", ascending=False), SortKey(ATTRIBUTE, "listed_id"))
)

After = tuple[int, str]
"""The creation time and id of the last row of a page."""
RangeAfter = Callable[[After | None], Range]
"""A list in LSI1, from a row on, that row included."""
IdOf = Callable[[Item], str]
"""The id of a listed item."""

FEWEST_IF_FILTERED = 1000
"""Items to read at a time, at least, when a filter leaves some out."""

_INT64 = 1 << 63


class Row(NamedTuple):
    """An item of a list."""

    created: int
    listed_id: str
    item: Item

    def values(self, kind: str, name: str) -> Sequence[Any]:
        del kind
        return (getattr(self, name),)


class RequestedPage(NamedTuple):
    """What a call asks for: how many rows, and after which."""

    size: int
    token: str | None

    @property
    def after(self) -> After | None:
        """The last row of the page before, if there is one."""
        position = NEWEST_FIRST.after(self.token)
        if position is None:
            return None
        (_, created), (_, listed_id) = position
        if not (isinstance(created, int) and isinstance(listed_id, str)):
            raise bad_token("holds values of the wrong type")
        if not -_INT64 < created < _INT64:
            raise bad_token("holds a time out of range")
        return created, listed_id


def requested_page(max_results: int | None, page_token: str | None) -> RequestedPage:
    """The page that a call asks for. Raises MLflow's error for a size that it refuses."""
    validate_max_results(max_results, allow_null=True)
    return RequestedPage(
        SEARCH_MAX_RESULTS_DEFAULT if max_results is None else max_results, page_token
    )


def page_of_ranges(
    table: Table,
    pk: str,
    ranges: Iterable[RangeAfter],
    id_of: IdOf,
    wanted: RequestedPage,
    where: ConditionBase | None = None,
) -> tuple[list[Item], str | None]:
    """A page of several lists merged, and a token if there are more rows."""
    after = wanted.after
    # The last row of the page before comes first, and one more row says whether there are more.
    limit = wanted.size + 2
    if where is not None:
        limit = max(limit, FEWEST_IF_FILTERED)

    def rows(range_after: RangeAfter) -> Iterator[list[Row]]:
        within = range_after(after).on("lsi1sk")
        query = Query(pk, within, index="LSI1", limit=limit, filter=where)
        return ([_row(item, id_of) for item in items] for items in table.pages(query))

    streams = side_by_side(table, map(rows, ranges), wanted.size)
    return _page(merged(streams, NEWEST_FIRST), wanted)


def page_of_items(
    items: Iterable[Item], id_of: IdOf, wanted: RequestedPage
) -> tuple[list[Item], str | None]:
    """A page of items that are all in memory."""
    rows = in_order([_row(item, id_of) for item in items], NEWEST_FIRST)
    return _page(iter(rows), wanted)


def _page(rows: Iterator[Row], wanted: RequestedPage) -> tuple[list[Item], str | None]:
    found, token = page(rows, NEWEST_FIRST, NEWEST_FIRST.after(wanted.token), wanted.size)
    return [row.item for row in found], token


def _row(item: Item, id_of: IdOf) -> Row:
    return Row(int(item["created"]), id_of(item), item)
