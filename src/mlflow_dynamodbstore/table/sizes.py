"""The size of an item by DynamoDB's rules, and whether it can be stored.

Names and strings count their UTF-8 bytes; a number one byte for two significant digits and one
more (two when negative); true, false and null one; a list or map three and one for each element.
Floats and bytes count what they are as Binary: nine bytes, and one more than their own.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from mlflow_dynamodbstore.table.binary import FLOAT_BYTES
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.schema import Schema
from mlflow_dynamodbstore.table.values import Item

MAX_DIGITS = 38
MAX_DEPTH = 32

_DIGITS_LIMIT = 10**MAX_DIGITS
MOST_NAMES = 1000
_name_sizes: dict[str, int] = {}  # of the most common names


def item_size(item: Item) -> int:
    """The size of an item in bytes.

    Raises ``InvalidRequest``, which names the attribute, for a value that a table cannot hold.
    """
    # Every write passes here, so the common types are written out.
    total = 0
    name = ""
    try:
        for name, value in item.items():
            total += _name_sizes.get(name) or _name_size(name)
            kind = type(value)
            if kind is str:
                total += len(value) if value.isascii() else len(value.encode())
            elif kind is float:
                total += FLOAT_BYTES
            elif kind is int:
                total += number_size(value)
            else:
                total += _size_of(value, 1)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"attribute {name!r} cannot be stored: {error}") from error
    return total


def check_operand(value: Any) -> None:
    """Raise ``InvalidRequest`` for a value that no item can hold, and no condition compare with."""
    try:
        _size_of(value, 0)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"a condition cannot compare with {value!r}: {error}") from error


def size_with_copies(schema: Schema, item: Item) -> int:
    """The bytes that an item takes in its partition: its own, and its entries in local indexes."""
    size = item_size(item)
    return size + size_of_copies(schema, item, size)


def size_of_copies(schema: Schema, item: Item, size: int) -> int:
    """The bytes that an item of so many bytes takes in local indexes."""
    entries = (schema.entry(index, item) for index in schema.local_indexes)
    return sum(size if entry is item else item_size(entry) for entry in entries if entry)


def text_size(text: str) -> int:
    """The UTF-8 length of a string."""
    return len(text) if text.isascii() else len(text.encode())


def _size_of(value: Any, depth: int) -> int:
    size = _SIZES.get(type(value))
    if size is None:
        raise TypeError(f"a table cannot hold values of type {type(value).__name__}")
    return size(value, depth)


def _list_size(elements: list[Any], depth: int) -> int:
    _check_depth(depth)
    total = 3 + len(elements)
    for element in elements:
        total += text_size(element) if type(element) is str else _size_of(element, depth + 1)
    return total


def _map_size(elements: dict[str, Any], depth: int) -> int:
    _check_depth(depth)
    total = 3 + len(elements)
    for name, element in elements.items():
        total += _name_sizes.get(name) or _name_size(name)
        total += text_size(element) if type(element) is str else _size_of(element, depth + 1)
    return total


@lru_cache(maxsize=4096)  # most numbers of one call are the same steps and times
def number_size(number: int) -> int:
    """The size of a whole number. Raises ``ValueError`` for one that is too long."""
    if not -_DIGITS_LIMIT < number < _DIGITS_LIMIT:
        raise ValueError(f"a whole number has at most {MAX_DIGITS} digits")
    digits = len(str(number).strip("-0"))
    return (digits + 1) // 2 + (1 if number >= 0 else 2)


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise ValueError(f"lists and maps are nested deeper than {MAX_DEPTH} levels")


def _name_size(name: object) -> int:
    if type(name) is not str:
        raise TypeError(f"names are strings, not {type(name).__name__}")
    size = text_size(name)
    if not size:
        raise ValueError("a name must not be empty")
    if len(_name_sizes) < MOST_NAMES:
        _name_sizes[name] = size
    return size


_SIZES: dict[type, Callable[[Any, int], int]] = {
    str: lambda value, _depth: text_size(value),
    int: lambda value, _depth: number_size(value),
    float: lambda _value, _depth: FLOAT_BYTES,
    bytes: lambda value, _depth: len(value) + 1,
    bool: lambda _value, _depth: 1,
    type(None): lambda _value, _depth: 1,
    list: _list_size,
    dict: _map_size,
}
