"""Judging a run by its packed summary, without unpacking it.

Most runs that a path brings do not match the rest of a filter, and finding one name and its value
in the bytes of a summary is far cheaper than unpacking all of them. A prefilter errs in one
direction only: the bytes of a name may also occur elsewhere. So the filter judges the runs that
pass, and a run that does not pass cannot match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct

from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.search.filters import METRIC, PARAM, TAG, Comparison

Prefilter = Callable[[bytes], bool]

# The heads of msgpack's texts and of a list of three that begins with a double.
_SHORT_TEXT, _LONGEST_SHORT = 0xA0, 0x1F
_LENGTH_BYTES = {0xD9: 1, 0xDA: 2, 0xDB: 4}
_POINT = b"\x93\xcb"
_double = Struct(">d").unpack_from


def prefilters(comparisons: Iterable[Comparison]) -> tuple[Prefilter, ...]:
    """Tests of a decompressed summary; a sealed run that matches passes them all."""
    return tuple(found for c in comparisons for found in _of(c))


def _of(c: Comparison) -> Iterator[Prefilter]:
    if c.kind not in (METRIC, PARAM, TAG) or c.comparator == "IS NULL":
        return
    name = large_values.encode_texts(c.name)
    if c.comparator == "IS NOT NULL":
        yield lambda data: name in data
    elif c.kind != METRIC and c.comparator == "=":
        whole = large_values.encode_texts(c.name, c.value)
        yield lambda data: whole in data
    elif c.kind == METRIC:
        yield _any_value_holds(name, c.holds(), _number)
    else:
        yield _any_value_holds(name, c.holds(), _text)


def _any_value_holds(
    name: bytes,
    holds: Callable[..., bool],
    read: Callable[[bytes, int], str | float | None],
) -> Prefilter:
    """Whether some value that follows a name holds."""

    def holds_for_any(data: bytes) -> bool:
        at = data.find(name)
        while at >= 0:
            value = read(data, at + len(name))
            if value is not None and holds(value):
                return True
            at = data.find(name, at + 1)
        return False

    return holds_for_any


def _text(data: bytes, at: int) -> str | None:
    """The text that begins at a position, if one does."""
    if at >= len(data):
        return None
    head = data[at]
    if head & ~_LONGEST_SHORT == _SHORT_TEXT:
        size, begin = head & _LONGEST_SHORT, at + 1
    elif head in _LENGTH_BYTES:
        begin = at + 1 + _LENGTH_BYTES[head]
        size = int.from_bytes(data[at + 1 : begin], "big")
    else:
        return None
    return data[begin : begin + size].decode(errors="replace")


def _number(data: bytes, at: int) -> float | None:
    """The value of a metric that begins at a position, if one does."""
    if data[at : at + 2] != _POINT or len(data) < at + 10:
        return None
    return float(_double(data, at + 2)[0])
