"""Whether an item can be written to a table, checked before any item is."""

from __future__ import annotations

from mlflow_dynamodbstore.table.contract import MAX_ITEM_BYTES, MAX_PK_BYTES, MAX_SK_BYTES
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.request_checks import check_key, check_text
from mlflow_dynamodbstore.table.schema import Index, Schema
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.values import TTL, Item, Key
from mlflow_dynamodbstore.table.versions import VERSION

_INT64 = 2**63


def check_item(item: Item, schema: Schema, *, with_copies: bool = False) -> Key:
    """The key of an item that an engine takes. Raises ``InvalidRequest`` for any other.

    What is written counts together ``with_copies`` in local indexes; files of 0.2.0 may hold more.
    """
    for name in (schema.pk, schema.sk):
        if name not in item:
            raise InvalidRequest(f"it has no attribute {name!r}, which is in its key")
    key = schema.key_of(item)
    check_key(*key)
    for index in schema.indexes:
        if index.pk is not None and index.pk in item:
            check_text(item[index.pk], f"index key {index.pk!r}", MAX_PK_BYTES)
        if index.sk in item:
            check_text(item[index.sk], f"index key {index.sk!r}", MAX_SK_BYTES)
    ttl = item.get(TTL)
    if ttl is not None and not (type(ttl) is int and -_INT64 <= ttl < _INT64):
        raise InvalidRequest(f"its {TTL!r} is {ttl!r:.100}, not a time in seconds")
    version = item.get(VERSION, 1)
    if type(version) is not int or version < 1:
        raise InvalidRequest(f"its {VERSION!r} is {version!r:.100}, not a version of its form")
    size = item_size(item)
    if size > MAX_ITEM_BYTES:
        raise InvalidRequest(f"it has {size:,} bytes, and {MAX_ITEM_BYTES:,} is the most")
    copies = sum(size for index in schema.indexes if _is_copied(item, index))
    if with_copies and size + copies > MAX_ITEM_BYTES:
        raise InvalidRequest(
            f"it and its copy in an index have {size + copies:,} bytes, and {MAX_ITEM_BYTES:,} is "
            "the most"
        )
    return key


def _is_copied(item: Item, index: Index) -> bool:
    """Whether a local index carries all of an item."""
    return index.is_local and index.projection == "ALL" and index.sk in item
