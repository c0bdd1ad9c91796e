"""Items, cursors and transactions as bytes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import threading
from collections.abc import Sequence
from typing import Any

import msgpack
from boto3.dynamodb.conditions import AttributeBase, ConditionBase

from mlflow_dynamodbstore.table.contract import Patch, Put, TransactWrite
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.values import Item

_WIDE_INT = 1  # the extension for whole numbers beyond msgpack's 64 bits, as decimal text


def pack(item: Item) -> bytes:
    """An item as msgpack; every double and every whole number comes back as it was."""
    body: bytes = _packers.pack(item)
    return body


def unpack(body: bytes) -> Item:
    """The item that :func:`pack` wrote."""
    item: Item = msgpack.unpackb(body, ext_hook=_unpack_wide_int)
    return item


def _pack_wide_int(value: Any) -> msgpack.ExtType:
    if type(value) is int:
        return msgpack.ExtType(_WIDE_INT, str(value).encode())
    raise InvalidRequest(f"a table cannot hold values of type {type(value).__name__}")


class _Packers(threading.local):
    """A packer for each thread: making one takes as long as packing an item with it."""

    def __init__(self) -> None:
        self.pack = msgpack.Packer(default=_pack_wide_int).pack


_packers = _Packers()


def _unpack_wide_int(code: int, data: bytes) -> int:
    if code == _WIDE_INT:
        return int(data)
    raise ValueError(f"the file holds a value of unknown kind {code}")


def write_cursor(kind: str, position: Sequence[str]) -> str:
    """The end of a page as opaque text for URLs; ``kind`` names what the position is in."""
    packed = msgpack.packb([kind, *position])
    return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()


def read_cursor(kind: str, length: int, cursor: str) -> list[str]:
    """The position that :func:`write_cursor` wrote. Raises ``InvalidRequest`` for any other."""
    try:
        padded = cursor.encode() + b"=" * (-len(cursor) % 4)
        parts = msgpack.unpackb(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error, msgpack.UnpackException) as error:
        raise InvalidRequest("the cursor was not written by this table") from error
    fits = isinstance(parts, list) and len(parts) == length + 1 and parts[0] == kind
    if not fits or not all(isinstance(part, str) for part in parts):
        raise InvalidRequest("the cursor belongs to another kind of query")
    position: list[str] = parts[1:]
    return position


def fingerprint(writes: Sequence[TransactWrite]) -> bytes:
    """A digest that tells whether two transactions with the same token are the same."""
    plain = msgpack.packb([_packable(write) for write in writes], default=_pack_wide_int)
    return hashlib.blake2b(plain, digest_size=16).digest()


def _packable(write: TransactWrite) -> list[Any]:
    parts: list[Any] = [type(write).__name__, _packable_condition(write.condition)]
    if isinstance(write, Put):
        return [*parts, write.item]
    parts.append(list(write.key))
    if isinstance(write, Patch):
        update = write.update
        changes = [dict(update.set), dict(update.if_absent), dict(update.add), list(update.remove)]
        parts.append(changes)
    return parts


def _packable_condition(part: Any) -> Any:
    if isinstance(part, ConditionBase):
        values = part.get_expression()["values"]
        return [type(part).__name__, [_packable_condition(value) for value in values]]
    if isinstance(part, AttributeBase):
        return {"attribute": part.name}
    return part
