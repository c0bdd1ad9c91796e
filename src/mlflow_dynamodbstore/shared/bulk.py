"""Work on many items at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from boto3.dynamodb.conditions import ConditionBase

from mlflow_dynamodbstore.table.contract import Delete, Query
from mlflow_dynamodbstore.table.table import Table

V = TypeVar("V")

PAGE = 500


def batched(values: Iterable[V], size: int) -> Iterator[list[V]]:
    """Values in lists of up to ``size``."""
    iterator = iter(values)
    while chunk := list(islice(iterator, size)):
        yield chunk


def empty_partition(
    table: Table,
    pk: str,
    *,
    keep: frozenset[str] = frozenset(),
    where: ConditionBase | None = None,
) -> None:
    """Remove everything in a partition, or in a range of it, but for some sort keys.

    Can be repeated if interrupted.
    """
    query = Query(pk, where, keys_only=True, limit=PAGE)
    while True:
        page = table.query(query)
        found = [table.schema.key_of(item) for item in page.items]
        table.write([Delete(key) for key in found if key.sk not in keep])
        if page.cursor is None:
            return
        query = replace(query, cursor=page.cursor)
