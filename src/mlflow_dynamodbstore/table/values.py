"""The values an item can hold, and what makes a key."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

Value: TypeAlias = Any
"""str, int (38 digits), float (every double), bytes, bool, None, and lists and maps of these.

Engines refuse anything else. The type checker is not asked to: what an attribute holds is known to
the module that wrote it, and a recursive union here would only be cast away at each use.
"""

Item: TypeAlias = dict[str, Value]

TTL = "ttl"
"""Attribute with the second (Unix time) from which an item is gone."""


def is_expired(item: Item, now: float) -> bool:
    """Whether the time has come from which an item is gone."""
    ttl = item.get(TTL)
    return ttl is not None and type(ttl) is int and ttl <= now  # a bool is no time


class Key(NamedTuple):
    """The primary key of an item."""

    pk: str
    sk: str
