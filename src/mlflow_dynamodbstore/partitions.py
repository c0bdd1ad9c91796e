"""Work on whole partitions: emptying one, copying one. Either can be repeated when interrupted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from mlflow_dynamodbstore.table.contract import Delete, Put, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item

PAGE = 500


def empty_partition(table: Table, pk: str, *, keep: frozenset[str] = frozenset()) -> None:
    """Remove everything in a partition, but for some sort keys."""
    for items in _pages(table, Query(pk, keys_only=True, limit=PAGE)):
        found = [table.schema.key_of(item) for item in items]
        table.write([Delete(key) for key in found if key.sk not in keep])


def copy_partition(
    table: Table, pk: str, change: Callable[[Item], Item], *, without: frozenset[str] = frozenset()
) -> None:
    """Write the items of a partition again as ``change`` makes them, but for some sort keys."""
    for items in _pages(table, Query(pk, limit=PAGE)):
        table.write([Put(change(item)) for item in items if item["SK"] not in without])


def _pages(table: Table, query: Query) -> Iterator[list[Item]]:
    while True:
        page = table.query(query)
        yield page.items
        if page.cursor is None:
            return
        query = replace(query, cursor=page.cursor)
