"""Points of a metric's history, packed into items.

The points of one key that come in one call become one item. Columns (steps, times, values) are
kept apart and the whole columns compressed: steps and times of a training loop shrink to almost
nothing, so a thousand points take about 8 KB.
"""

from __future__ import annotations

import hashlib
import math
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from mlflow_dynamodbstore import keys
from mlflow_dynamodbstore.table.values import TTL, Item
from mlflow_dynamodbstore.tracking.items import RunPlace

_FORMAT = b"\x01"


class Point(NamedTuple):
    """One logged value. Points compare as MLflow orders a history by step."""

    step: int
    timestamp: int
    value: float


def order(point: Point) -> tuple[int, int, float, bool]:
    """The place of a point in a history: MLflow keeps NaN as a zero marked as no number."""
    nan = math.isnan(point.value)
    return point.step, point.timestamp, 0.0 if nan else point.value, nan


def same(one: Point, other: Point) -> bool:
    """Whether two points are one and the same to MLflow, where NaN equals NaN."""
    return order(one) == order(other)


def history_item(run: RunPlace, name: str, points: Sequence[Point], ttl: int | None) -> Item:
    """The item for the points of one key that came in one call.

    Its key is made from its content, so that sending it again changes nothing.
    """
    points = sorted(points, key=order)
    first = points[0]
    if len(points) == 1:
        content: Item = {"value": first.value}
        suffix = struct.pack(">d", first.value).hex()
    else:
        packed = pack(points)
        content = {"points": packed}
        suffix = "p" + hashlib.blake2b(packed, digest_size=8).hexdigest()
    if ttl is not None:
        content[TTL] = ttl
    sk = keys.run_metric_point(run.run_id, name, first.step, first.timestamp, suffix)
    return run.child(sk, name, content)


def points_of(item: Item) -> list[Point]:
    """The points of a history item, in order."""
    packed = item.get("points")
    if isinstance(packed, bytes):
        return unpack(packed)
    step, timestamp, _ = keys.metric_point_of(str(item["SK"]))
    value = item["value"]
    assert isinstance(value, float)
    return [Point(step, timestamp, value)]


def pack(points: Sequence[Point]) -> bytes:
    """Points as compressed columns; steps and times as differences from the one before."""
    count = len(points)
    steps = _differences([p.step for p in points])
    times = _differences([p.timestamp for p in points])
    columns = struct.pack(
        f"<I{count}q{count}q{count}d", count, *steps, *times, *(p.value for p in points)
    )
    return _FORMAT + zlib.compress(columns, 6)


def unpack(packed: bytes) -> list[Point]:
    """The inverse of :func:`pack`."""
    columns = zlib.decompress(packed[1:])
    (count,) = struct.unpack_from("<I", columns)
    numbers = struct.unpack_from(f"<{count}q{count}q{count}d", columns, 4)
    steps, times = _sums(numbers[:count]), _sums(numbers[count : 2 * count])
    return list(map(Point, steps, times, numbers[2 * count :]))


_WRAP = 1 << 64
_HALF = 1 << 63


def _differences(numbers: Sequence[int]) -> list[int]:
    """Each number less the one before, wrapped to 64 bits as the sums unwrap it."""
    before = [0, *numbers[:-1]]
    return [
        (number - last + _HALF) % _WRAP - _HALF
        for number, last in zip(numbers, before, strict=True)
    ]


def _sums(differences: Sequence[int]) -> list[int]:
    total, numbers = 0, []
    for difference in differences:
        total = (total + difference + _HALF) % _WRAP - _HALF
        numbers.append(total)
    return numbers
