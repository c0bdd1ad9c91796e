"""How large an item is by DynamoDB's rules, and whether it can be stored at all.

Names and strings count their UTF-8 bytes; a number one byte for each two significant digits and
one more (two when negative); true, false and null one; a list or map three and one for each
element. Our floats are nine bytes on the wire and bytes carry one byte in front.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.values import Item

MAX_DIGITS = 38
MAX_DEPTH = 32

_DIGITS_LIMIT = 10**MAX_DIGITS


def item_size(item: Item) -> int:
    """The size of an item in bytes.

    Raises ``InvalidRequest`` naming the attribute for a value that a table cannot hold.
    """
    total = 0
    for name, value in item.items():
        try:
            total += _name_size(name)
            total += text_size(value) if type(value) is str else _size_of(value, 1)
        except (TypeError, ValueError) as error:
            raise InvalidRequest(f"attribute {name!r} cannot be stored: {error}") from error
    return total


def text_size(text: str) -> int:
    """The UTF-8 length of a string."""
    return len(text) if text.isascii() else len(text.encode())


def _size_of(value: Any, depth: int) -> int:
    kind = type(value)
    if kind is list or kind is dict:
        return _nested_size(value, depth)
    size = _SCALARS.get(kind)
    if size is None:
        raise TypeError(f"a table holds no values of type {kind.__name__}")
    return size(value)


def _nested_size(value: Any, depth: int) -> int:
    if depth >= MAX_DEPTH:
        raise ValueError(f"lists and maps are nested deeper than {MAX_DEPTH} levels")
    total = 3 + len(value)
    if type(value) is list:
        for element in value:
            total += _size_of(element, depth + 1)
        return total
    for name, element in value.items():
        total += _name_size(name) + _size_of(element, depth + 1)
    return total


def _name_size(name: str) -> int:
    if type(name) is not str:
        raise TypeError(f"names are strings, not {type(name).__name__}")
    return text_size(name)


def _number_size(number: int) -> int:
    if number == 0:
        return 1
    if not -_DIGITS_LIMIT < number < _DIGITS_LIMIT:
        raise ValueError(f"whole numbers end at {MAX_DIGITS} digits")
    digits = len(str(number).strip("-0"))
    return (digits + 1) // 2 + (1 if number > 0 else 2)


_SCALARS: dict[type, Callable[[Any], int]] = {
    str: text_size,
    int: _number_size,
    float: lambda _value: 9,
    bytes: lambda value: len(value) + 1,
    bool: lambda _value: 1,
    type(None): lambda _value: 1,
}
