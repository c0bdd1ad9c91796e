"""Values that may not fit into one item: compressed, then split over numbered items.

A small value stays inside its head item. A large one is cut into parts beside it, each under the
400 KB an item may have. The parts of one value share a *generation*, which the head names, so that

- writing puts all parts first and the head last: a crash leaves parts that no head names, which
  cleanup finds, and never a head without its parts;
- replacing writes a new generation, then the head, then removes the old parts;
- deleting removes the head first.
"""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgpack

from mlflow_dynamodbstore.keys.base import value_part
from mlflow_dynamodbstore.table.contract import Delete, Put
from mlflow_dynamodbstore.table.errors import Damaged, damaged_item
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import TTL, Item, Key, Value

COMPRESS_FROM = 256
INLINE_LIMIT = 256 * 1024
INLINE_IN_LSI1 = 128 * 1024
"""Bytes of a value up to which it stays in a head that is in LSI1.

The index carries whole items, and an item and its copy have 400 KB together.
"""
PART_SIZE = 380 * 1024

_RAW, _ZLIB = b"\x00", b"\x01"

UNREADABLE = (zlib.error, ValueError, TypeError, LookupError)
"""What :func:`decompress` and :func:`decode` raise for damaged bytes."""


class LargeValueLost(Damaged):
    """Parts of a large value are missing although its head names them."""


@dataclass(frozen=True)
class Stored:
    """How a value is to be written: attributes for the head, and parts to write before it."""

    attributes: Item
    parts: list[Put] = field(default_factory=list)


def pack(value: Value) -> bytes:
    """Any value as bytes, compressed where that helps."""
    raw: bytes = msgpack.packb(value)
    if len(raw) >= COMPRESS_FROM:
        squeezed = zlib.compress(raw, 6)
        if len(squeezed) < len(raw):
            return _ZLIB + squeezed
    return _RAW + raw


def unpack(data: bytes, head: Item, name: str) -> Value:
    """The value that :func:`pack` packed for an item's attribute. Raises ``Damaged``."""
    try:
        return decode(decompress(data))
    except UNREADABLE as error:
        raise damaged_item(head["PK"], head["SK"], name) from error


def decompress(data: bytes) -> bytes:
    """A packed value in msgpack, not compressed; texts are UTF-8 in it."""
    return zlib.decompress(data[1:]) if data[:1] == _ZLIB else data[1:]


def decode(data: bytes) -> Value:
    """The value of what :func:`decompress` returns."""
    value: Value = msgpack.unpackb(data, strict_map_key=False)
    return value


def encode_texts(*texts: str) -> bytes:
    """The bytes of consecutive texts, such as a name and its value, in a decompressed value."""
    # Text that is not Unicode is never stored, so its bytes are found nowhere.
    return b"".join(msgpack.packb(text, unicode_errors="surrogatepass") for text in texts)


def store(
    head: Key, name: str, value: Value, *, ttl: int | None = None, inline: int = INLINE_LIMIT
) -> Stored:
    """Prepare a value for attribute ``name`` of the item at ``head``.

    ``inline`` is how many bytes may stay in the head: few where heads are read in lists.
    """
    data = pack(value)
    if len(data) <= inline:
        return Stored({name: data})
    generation = secrets.token_hex(6)
    pieces = [data[n : n + PART_SIZE] for n in range(0, len(data), PART_SIZE)]
    expiry: Item = {} if ttl is None else {TTL: ttl}
    parts = [
        Put({"PK": head.pk, "SK": value_part(head.sk, generation, n), "data": piece, **expiry})
        for n, piece in enumerate(pieces)
    ]
    return Stored({name: {"generation": generation, "parts": len(pieces)}}, parts)


def part_keys(head: Item, name: str) -> list[Key]:
    """The keys of the parts that an item's value occupies beside it."""
    value = head.get(name)
    if not isinstance(value, dict):
        return []
    pk, sk = str(head["PK"]), str(head["SK"])
    generation, count = str(value["generation"]), value["parts"]
    assert isinstance(count, int)
    return [Key(pk, value_part(sk, generation, n)) for n in range(count)]


def load(table: Table, head: Item, name: str) -> Value:
    """Read a value that :func:`store` prepared; an absent one is None.

    If the parts are gone because the value was replaced meanwhile, the head is read again.
    """
    value = head.get(name)
    if value is None:
        return None
    if isinstance(value, bytes):
        return unpack(value, head, name)
    wanted = part_keys(head, name)
    found = table.get_many(wanted)
    if len(found) == len(wanted):
        return unpack(b"".join(found[key]["data"] for key in wanted), head, name)
    fresh = table.get(table.schema.key_of(head))
    if fresh is not None and fresh.get(name) != value:
        return load(table, fresh, name)
    raise LargeValueLost(
        f"{len(wanted) - len(found)} of {len(wanted)} parts of {name!r} are missing at {wanted[0]}"
    )


def load_many(table: Table, heads: Sequence[Item], name: str) -> list[Value]:
    """The values of several items, in their order; the parts of all are read together."""
    wanted = [part_keys(head, name) for head in heads]
    found = table.get_many(key for some in wanted for key in some)
    values: list[Value] = []
    for head, some in zip(heads, wanted, strict=True):
        if some and all(key in found for key in some):
            values.append(unpack(b"".join(found[key]["data"] for key in some), head, name))
        else:
            values.append(load(table, head, name))
    return values


def removal(head: Item, name: str) -> list[Delete]:
    """The deletes of a value's parts, to be made after its head is gone."""
    return [Delete(key) for key in part_keys(head, name)]
