"""The values an item can hold, and what makes a key."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias, Union

Value: TypeAlias = Union[
    str, int, float, bytes, bool, None, list["Value"], dict[str, "Value"]  # noqa: UP007 - recursive
]
Item: TypeAlias = dict[str, Value]

TTL = "ttl"
"""Attribute with the second (Unix time) from which an item is gone."""


class Key(NamedTuple):
    """The primary key of an item."""

    pk: str
    sk: str
