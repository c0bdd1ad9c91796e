"""Our values in DynamoDB's JSON, and back.

Whole numbers are N, floats and bytes are B (:mod:`~mlflow_dynamodbstore.table.binary`). No
``Decimal`` is ever made.

Encoded binaries are ``bytes``, which the transport turns into base64. Decoding takes both forms,
since only one of the transports decodes base64.
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from mlflow_dynamodbstore.table.binary import from_binary, to_binary
from mlflow_dynamodbstore.table.errors import InvalidRequest, SchemaMismatch
from mlflow_dynamodbstore.table.schema import Schema
from mlflow_dynamodbstore.table.sizes import MAX_DIGITS
from mlflow_dynamodbstore.table.values import Item, Key, Value

Wire: TypeAlias = dict[str, Any]
"""One value as ``{"S": "text"}``, or an item or key made of such values."""

_INT_LIMIT = 10**MAX_DIGITS


# --- from our values ----------------------------------------------------------------------------


def encode(value: Value) -> Wire:
    """One value as JSON. Raises ``InvalidRequest`` for what a table cannot hold."""
    try:
        return _ENCODE[type(value)](value)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequest(f"{value!r} cannot be stored: {_reason(value, error)}") from error


def encode_item(item: Mapping[str, Value]) -> Wire:
    """An item as JSON. Raises ``InvalidRequest``, which names the attribute at fault."""
    try:
        return _map(item)
    except (KeyError, TypeError, ValueError):
        for name, value in item.items():
            try:
                _map({name: value})
            except (KeyError, TypeError, ValueError) as error:
                raise InvalidRequest(
                    f"attribute {name!r} cannot be stored: {_reason(value, error)}"
                ) from error
        raise


def encode_key(schema: Schema, key: Key) -> Wire:
    """A primary key as JSON."""
    return {schema.pk: {"S": key[0]}, schema.sk: {"S": key[1]}}


def _int(value: int) -> Wire:
    if not -_INT_LIMIT < value < _INT_LIMIT:
        raise ValueError(f"a whole number has at most {MAX_DIGITS} digits")
    return {"N": str(value)}


def _list(value: list[Value]) -> Wire:
    return {"L": [_ENCODE[type(element)](element) for element in value]}


def _map(value: Mapping[str, Value]) -> Wire:
    encoded = {name: _ENCODE[type(element)](element) for name, element in value.items()}
    for name in encoded:
        if type(name) is not str:  # JSON would turn 1 into "1"
            raise TypeError(f"names are strings, not {type(name).__name__}")
    return encoded


_ENCODE: dict[type, Callable[[Any], Wire]] = {
    str: lambda value: {"S": value},
    int: _int,
    float: lambda value: {"B": to_binary(value)},
    bytes: lambda value: {"B": to_binary(value)},
    bool: lambda value: {"BOOL": value},
    type(None): lambda _value: {"NULL": True},
    list: _list,
    dict: lambda value: {"M": _map(value)},
}


def _reason(value: Any, error: Exception) -> str:
    if not isinstance(error, KeyError):
        return str(error)
    kind = error.args[0]
    inside = "" if kind is type(value) else f" (inside a {type(value).__name__})"
    return f"a table cannot hold values of type {kind.__name__}{inside}"


# --- to our values ------------------------------------------------------------------------------


def decode_item(wire: Wire) -> Item:
    """The item in JSON. Raises ``SchemaMismatch`` for a value that we never write."""
    # A value is a dict of one entry, so the inner loop runs once. Strings, the most common values,
    # need no function.
    return {
        name: raw if tag == "S" else _DECODE[tag](raw)
        for name, value in wire.items()
        for tag, raw in value.items()
    }


def _decode(wire: Wire) -> Value:
    ((tag, raw),) = wire.items()
    return _DECODE[tag](raw)


def _decode_number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return _decode_foreign_number(text)


def _decode_foreign_number(text: str) -> int | float:
    """A number in another notation (1E+2), or one that another program wrote (0.5)."""
    try:
        number = Decimal(text)
    except InvalidOperation as error:
        raise SchemaMismatch(f"the table holds {text!r} as a number") from error
    return int(number) if number == number.to_integral_value() else float(number)


def _decode_binary(raw: str | bytes) -> float | bytes:
    return from_binary(raw if isinstance(raw, bytes) else a2b_base64(raw))


def _refuse_set(raw: Any) -> Value:
    raise SchemaMismatch(f"the table holds a set ({raw!r}), which this program never writes")


_DECODE: dict[str, Callable[[Any], Value]] = {
    "S": lambda raw: raw,
    "N": _decode_number,
    "B": _decode_binary,
    "BOOL": lambda raw: raw,
    "NULL": lambda _raw: None,
    "L": lambda raw: [_decode(element) for element in raw],
    "M": decode_item,
    "SS": _refuse_set,
    "NS": _refuse_set,
    "BS": _refuse_set,
}
