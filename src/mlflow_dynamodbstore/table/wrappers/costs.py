"""What DynamoDB charges for a request, as pure functions of sizes and of the schema.

The figures are those of DynamoDB's developer guide. Reads count steps of 4 KB, half of them when
eventually consistent. Writes count steps of 1 KB of the larger of the old and the new image, plus
what each secondary index writes. A transaction doubles the units of the table, not of the indexes.
"""

from __future__ import annotations

from collections.abc import Iterable

from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.schema import Index, Schema
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.values import Item, same_value

READ_STEP = 4096
WRITE_STEP = 1024


def read_units(size: int, *, consistent: bool) -> float:
    """Units of reading so many bytes at once; reading nothing costs one step too."""
    steps = max(1, _steps(size, READ_STEP))
    return float(steps) if consistent else steps / 2


def get_units(items: Iterable[Item | None], *, consistent: bool) -> float:
    """Units of reading items by key, each rounded up; ``None`` is an absent item."""
    return sum(read_units(_size(item), consistent=consistent) for item in items)


def query_units(schema: Schema, query: Query, read: Iterable[Item]) -> float:
    """Units of one page of a query, given the items that it read before the filter.

    The sum of the items, or of the entries of an index, is rounded up. A local index that does not
    carry whole items fetches each from the table, each rounded up.
    """
    if query.index is None:
        return page_units(read, consistent=query.consistent)
    index = schema.by_name[query.index]
    items = list(read)
    consistent = query.consistent and index.is_local
    entries = [entry for entry in (schema.entry(index, item) for item in items) if entry]
    return page_units(entries, consistent=consistent) + fetch_units(schema, query, items)


def fetch_units(schema: Schema, query: Query, read: Iterable[Item], unseen: int = 0) -> float:
    """Units of fetching from the table what a local index found and does not carry.

    ``unseen`` is the number of items that a filter left out; they are assumed to be small.
    """
    index = None if query.index is None else schema.by_name[query.index]
    if index is None or not index.is_local or index.projection == "ALL" or query.keys_only:
        return 0.0
    return get_units([*read, *([None] * unseen)], consistent=query.consistent)


def page_units(read: Iterable[Item], *, consistent: bool) -> float:
    """Units of a page, the sum of its items rounded up."""
    return read_units(sum(map(item_size, read)), consistent=consistent)


def write_units(
    schema: Schema, old: Item | None, new: Item | None, *, transactional: bool = False
) -> int:
    """Units of turning the old image into the new one; ``None`` is an absent item."""
    base = _write_steps(max(_size(old), _size(new)))
    indexes = sum(index_write_units(schema, index, old, new) for index in schema.indexes)
    return (2 * base if transactional else base) + indexes


def refused_units(old: Item | None, *, transactional: bool = False) -> int:
    """Units of a write whose condition failed, or of a check: those of the stored item."""
    base = _write_steps(_size(old))
    return 2 * base if transactional else base


def index_write_units(schema: Schema, index: Index, old: Item | None, new: Item | None) -> int:
    """Units of updating one index.

    An unchanged entry costs nothing. One that is added, removed or changed in place costs one
    write. One whose key changes costs two: the old entry's and the new one's.
    """
    before, after = schema.entry(index, old), schema.entry(index, new)
    if before is None and after is None:
        return 0
    if before is None or after is None:
        return _write_steps(_size(before or after))
    if schema.index_key(index, before) != schema.index_key(index, after):
        return _write_steps(_size(before)) + _write_steps(_size(after))
    return 0 if same_value(before, after) else _write_steps(max(_size(before), _size(after)))


def _size(item: Item | None) -> int:
    return 0 if item is None else item_size(item)


def _steps(size: int, step: int) -> int:
    return -(-size // step)


def _write_steps(size: int) -> int:
    return max(1, _steps(size, WRITE_STEP))
