"""Pages of entities, in the order of their ids."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE
from mlflow_dynamodbstore.shared.search.ordering import Ordering, SortKey
from mlflow_dynamodbstore.shared.search.pages import page, validate_max_results
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item

OLDEST_FIRST = Ordering((SortKey(ATTRIBUTE, "SK"),))


class Row:
    """An item, sorted by its attributes."""

    def __init__(self, item: Item):
        self.item = item

    def values(self, _kind: str, name: str) -> tuple[Any, ...]:
        return (self.item[name],)


def page_of(
    table: Table, partition: str, within: Range, size: int, page_token: str | None
) -> tuple[list[Item], str | None]:
    """The next page of the items in a range, and a token when there are more."""
    validate_max_results(size)
    after = OLDEST_FIRST.after(page_token)
    rest = within if after is None else within.overlap(Range(str(after[0][1]), within.high))
    if rest.is_empty:
        return [], None
    query = Query(partition, where=rest.on(), limit=size + 2)
    rows: Iterator[Row] = map(Row, table.items(query))
    found, token = page(islice(rows, size + 2), OLDEST_FIRST, after, size)
    return [row.item for row in found], token
