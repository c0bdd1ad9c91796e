"""Items as lines of JSON, and back.

Types are written as in DynamoDB's own JSON, ``{"S": "text"}``, with two differences: a double,
which DynamoDB does not have, is ``{"F": "0.1"}``, and bytes are the bytes alone. There is only one
way to write an item: names sorted, ASCII only, no blanks. Two items are equal exactly if their
lines are.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from struct import error as struct_error
from struct import pack, unpack
from typing import Any

from mlflow_dynamodbstore.table.values import Item, Value

ITEM = "Item"
Typed = dict[str, Any]

_NAN_BITS = 0x7FF8000000000000
_write = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False).encode


def line_of(kind: str, content: Mapping[str, Any]) -> bytes:
    """A line of an archive, without its newline: its kind, and its content."""
    return _write({kind: content}).encode("ascii")


def item_line(item: Item) -> bytes:
    """The line of an item."""
    return line_of(ITEM, _typed_map(item))


def content_of(line: bytes, kind: str) -> Any:
    """The content of a line. Raises ``ValueError`` for a line of another kind."""
    try:
        read = json.loads(line)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    if not isinstance(read, dict) or list(read) != [kind]:
        raise ValueError(f"it is not a line of kind {kind}")
    return read[kind]


def item_of(line: bytes) -> Item:
    """The item of a line. Raises ``ValueError`` for any other line."""
    try:
        return _map(content_of(line, ITEM))
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    except (KeyError, TypeError, AttributeError, struct_error) as error:
        raise ValueError(f"it has a value that cannot be read: {error!r:.200}") from error


# --- to text ------------------------------------------------------------------------------------


def _typed(value: Value) -> Typed:
    return _TYPED[type(value)](value)


def _typed_map(value: Mapping[str, Value]) -> dict[str, Typed]:
    return {name: _TYPED[type(element)](element) for name, element in value.items()}


def double_text(value: float) -> str:
    """A double as the shortest decimal text that restores it; an unusual NaN with its bits."""
    if not math.isnan(value):
        return repr(value)
    (bits,) = unpack(">Q", pack(">d", value))
    return "nan" if bits == _NAN_BITS else f"nan:{bits:016x}"


_TYPED: dict[type, Callable[[Any], Typed]] = {
    str: lambda value: {"S": value},
    int: lambda value: {"N": str(value)},
    float: lambda value: {"F": double_text(value)},
    bytes: lambda value: {"B": b64encode(value).decode("ascii")},
    bool: lambda value: {"BOOL": value},
    type(None): lambda _value: {"NULL": True},
    list: lambda value: {"L": [_typed(element) for element in value]},
    dict: lambda value: {"M": _typed_map(value)},
}


# --- from text ----------------------------------------------------------------------------------


def _value(typed: Typed) -> Value:
    ((kind, raw),) = typed.items()
    return _VALUES[kind](raw)


def _map(typed: Mapping[str, Typed]) -> Item:
    return {name: _value(element) for name, element in typed.items()}


def _text(raw: str) -> str:
    if type(raw) is not str:
        raise TypeError(f"{raw!r:.100} is not text")
    return raw


def _flag(raw: bool) -> bool:
    if type(raw) is not bool:
        raise TypeError(f"{raw!r:.100} is neither true nor false")
    return raw


def _nothing(raw: bool) -> None:
    if raw is not True:
        raise TypeError(f"{raw!r:.100} is not true")


def _list(raw: list[Typed]) -> list[Value]:
    if type(raw) is not list:
        raise TypeError(f"{raw!r:.100} is not a list")
    return [_value(element) for element in raw]


def double_of(text: str) -> float:
    """The double that :func:`double_text` wrote."""
    if not text.startswith("nan:"):
        return float(text)
    value: float
    (value,) = unpack(">d", bytes.fromhex(text[4:].zfill(16)))
    return value


_VALUES: dict[str, Callable[[Any], Value]] = {
    "S": _text,
    "N": lambda raw: int(_text(raw)),
    "F": lambda raw: double_of(_text(raw)),
    "B": lambda raw: b64decode(_text(raw), validate=True),
    "BOOL": _flag,
    "NULL": _nothing,
    "L": _list,
    "M": _map,
}
