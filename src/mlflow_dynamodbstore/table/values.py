"""The values that an item can hold, and its key."""

from __future__ import annotations

from struct import pack
from typing import Any, NamedTuple, TypeAlias

Value: TypeAlias = Any
"""str, int (38 digits), float (every double), bytes, bool, None, and lists and maps of these.

Engines refuse anything else. It is not a recursive union: only the module that wrote an attribute
knows what it holds, so each use would have to cast.
"""

Item: TypeAlias = dict[str, Value]

TTL = "ttl"
"""The attribute with the Unix time, in seconds, at which an item expires."""


def is_expired(item: Item, now: float) -> bool:
    """Whether an item has expired."""
    ttl = item.get(TTL)
    return ttl is not None and type(ttl) is int and ttl <= now  # a bool is no time


def same_value(one: Value, other: Value) -> bool:
    """Whether two values are stored alike: 1 and 1.0 are not, two equal NaNs are."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is float:
        return pack("d", one) == pack("d", other)
    if kind is dict:
        return one.keys() == other.keys() and all(same_value(one[k], other[k]) for k in one)
    if kind is list:
        return len(one) == len(other) and all(map(same_value, one, other))
    return bool(one == other)


class Key(NamedTuple):
    """The primary key of an item."""

    pk: str
    sk: str
