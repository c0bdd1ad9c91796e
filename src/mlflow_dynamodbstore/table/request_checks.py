"""Refuse what DynamoDB would refuse, with a message that names the fault."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from boto3.dynamodb.conditions import ConditionBase

from mlflow_dynamodbstore.table.conditions import attribute_names
from mlflow_dynamodbstore.table.contract import (
    MAX_BATCH_GET,
    MAX_ITEM_BYTES,
    MAX_PK_BYTES,
    MAX_SK_BYTES,
    MAX_TRANSACTION,
    Put,
    Scan,
    TransactWrite,
    Write,
)
from mlflow_dynamodbstore.table.errors import InvalidRequest, ItemTooLarge
from mlflow_dynamodbstore.table.expressions import check_update_size
from mlflow_dynamodbstore.table.schema import Index, Schema
from mlflow_dynamodbstore.table.sizes import item_size, size_of_copies, text_size
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

T = TypeVar("T")

MAX_TOKEN = 36
LONG = 64 * 1024
"""Characters and bytes of an item from which on it is measured before others are written."""


def check_key(pk: Any, sk: Any) -> None:
    """Raise ``InvalidRequest`` unless this can be the key of an item."""
    if (
        type(pk) is str is type(sk)
        and pk.isascii()
        and sk.isascii()
        and 0 < len(pk) <= MAX_PK_BYTES
        and 0 < len(sk) <= MAX_SK_BYTES
    ):
        return  # nearly all keys; every write passes here
    check_text(pk, "partition key", MAX_PK_BYTES)
    check_text(sk, "sort key", MAX_SK_BYTES)


def check_text(text: Any, role: str, limit: int) -> None:
    """Raise ``InvalidRequest`` unless this can be part of a key."""
    if type(text) is str and text.isascii() and 0 < len(text) <= limit:
        return  # nearly all texts
    if type(text) is not str:
        raise InvalidRequest(f"the {role} is a string, not {type(text).__name__}")
    if not text:
        raise InvalidRequest(f"the {role} is empty")
    try:
        size = text_size(text)
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"the {role} is not valid Unicode: {error.reason}") from error
    if size > limit:
        raise InvalidRequest(f"the {role} has {size} bytes, more than {limit}")


def check_distinct(keys: Sequence[tuple[str, str]]) -> None:
    """Raise ``InvalidRequest`` when a key is named twice."""
    if len(set(keys)) < len(keys):
        raise InvalidRequest(f"the key {tuple(_first_repeated(keys))} is named twice")


def key_of(schema: Schema, write: TransactWrite) -> Key:
    """The key of the item that a write is about. Raises ``InvalidRequest`` for an item without."""
    if not isinstance(write, Put):
        return write.key
    try:
        return schema.key_of(write.item)
    except KeyError as error:
        raise InvalidRequest(f"the item has no attribute {error}, which is in its key") from error


def check_limit(limit: int | None) -> None:
    """Raise ``InvalidRequest`` unless this can be the limit of a page."""
    if limit is not None and limit < 1:
        raise InvalidRequest(f"a page holds at least one item, not {limit}")


def check_filter(schema: Schema, index: Index | None, condition: ConditionBase | None) -> None:
    """Raise ``InvalidRequest`` for a filter that the table, or an index of it, cannot judge.

    DynamoDB judges entries before it fetches whole items, and the range is for the key condition.
    """
    if condition is None:
        return
    partition, sort = (schema.pk, schema.sk) if index is None else (index.pk or schema.pk, index.sk)
    for name in sorted(attribute_names(condition)):
        if name in (partition, sort):
            raise InvalidRequest(f"a filter cannot use {name!r}, which is a key of this query")
        if index is not None and not schema.carries(index, name):
            raise InvalidRequest(f"a filter cannot use {name!r}: {index.name} does not carry it")


def check_segment(scan: Scan) -> None:
    """Raise ``InvalidRequest`` for a segment that does not exist."""
    if not 0 <= scan.segment < scan.segments:
        raise InvalidRequest(f"there is no segment {scan.segment} of {scan.segments}")


def check_size(schema: Schema, item: Item, size: int) -> None:
    """Raise ``ItemTooLarge`` for an item of so many bytes that DynamoDB does not take.

    It counts an item together with its entries in local indexes.
    """
    if size > MAX_ITEM_BYTES:
        raise ItemTooLarge(f"the item has {size} bytes, more than {MAX_ITEM_BYTES}")
    if size > LONG:
        copies = size_of_copies(schema, item, size)
        if size + copies > MAX_ITEM_BYTES:
            raise ItemTooLarge(
                f"the item and its copies in local indexes have {size + copies} bytes, more than "
                f"{MAX_ITEM_BYTES}"
            )


def refuse_oversized(schema: Schema, writes: Iterable[Write]) -> None:
    """Raise ``ItemTooLarge`` for a put that no engine takes; for calls that write in several steps.

    Only items with long values are measured, since every write passes here.
    """
    for write in writes:
        if isinstance(write, Put) and _is_long(write.item):
            check_size(schema, write.item, item_size(write.item))


def _is_long(item: Item) -> bool:
    total = 0
    for value in item.values():
        if type(value) is str or type(value) is bytes:
            total += len(value)
    return total > LONG


def check_batch_get(keys: Sequence[Key]) -> None:
    """Raise ``InvalidRequest`` for too many keys in one request, or a repeated one."""
    if len(keys) > MAX_BATCH_GET:
        raise InvalidRequest(f"one request reads up to {MAX_BATCH_GET} items, not {len(keys)}")
    for key in keys:
        check_key(*key)
    check_distinct(keys)


def check_transaction(operations: int, token: str) -> None:
    """Raise ``InvalidRequest`` for a transaction that is too large for DynamoDB, or empty."""
    if not 1 <= operations <= MAX_TRANSACTION:
        raise InvalidRequest(
            f"a transaction holds 1 to {MAX_TRANSACTION} operations, not {operations}"
        )
    if not 1 <= len(token) <= MAX_TOKEN:
        raise InvalidRequest(f"the token of a transaction has 1 to {MAX_TOKEN} characters")


def check_update(update: Update, schema: Schema) -> None:
    """Raise ``InvalidRequest`` for an update that changes the key, names twice or is too long."""
    names = [*update.set, *update.if_absent, *update.add, *update.remove]
    for name in (schema.pk, schema.sk):
        if name in names:
            raise InvalidRequest(f"{name!r} is part of the key and cannot be changed")
    if len(set(names)) < len(names):
        raise InvalidRequest(f"an update names the attribute {_first_repeated(names)!r} twice")
    for name, amount in update.add.items():
        if type(amount) is not int:
            raise InvalidRequest(f"only a whole number can be added to {name!r}")
    check_update_size(update)


def _first_repeated(values: Sequence[T]) -> T:
    return next(value for n, value in enumerate(values) if value in values[:n])
