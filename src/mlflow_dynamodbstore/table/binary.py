"""Floats and bytes as Binary values, and the order of doubles.

A Number of DynamoDB holds 38 digits and not every double, so floats and bytes are both stored as
Binary: a float as 0x01 and its eight ordered bytes, bytes as 0x00 and themselves. Binary values
are compared byte by byte, so floats keep their order.
"""

from __future__ import annotations

from struct import Struct

from mlflow_dynamodbstore.table.errors import SchemaMismatch

FLOAT_BYTES = 9

_SIGN = 1 << 63
_ALL_BITS = (1 << 64) - 1
_DOUBLE, _BITS = Struct(">d"), Struct(">Q")


def ordered_bits(number: float) -> int:
    """A double's 64 bits, arranged so that they compare as unsigned numbers.

    Nothing is lost: -0.0 comes just below 0.0. A NaN keeps its payload and comes above infinity,
    or below minus infinity when its sign bit is set.
    """
    bits: int = _BITS.unpack(_DOUBLE.pack(number))[0]
    return bits ^ (_ALL_BITS if bits & _SIGN else _SIGN)


def double_of(bits: int) -> float:
    """The double, bit for bit, that :func:`ordered_bits` arranged."""
    number: float = _DOUBLE.unpack(_BITS.pack(bits ^ (_SIGN if bits & _SIGN else _ALL_BITS)))[0]
    return number


def to_binary(value: float | bytes) -> bytes:
    """A float or bytes as a Binary."""
    if isinstance(value, bytes):
        return b"\x00" + value
    return b"\x01" + _BITS.pack(ordered_bits(value))


def from_binary(data: bytes) -> float | bytes:
    """The value that :func:`to_binary` wrote. Raises ``SchemaMismatch`` for any other."""
    if data[:1] == b"\x00":
        return data[1:]
    if data[:1] == b"\x01" and len(data) == FLOAT_BYTES:
        return double_of(_BITS.unpack_from(data, 1)[0])
    raise SchemaMismatch("the table holds a binary value that was not written by this program")
