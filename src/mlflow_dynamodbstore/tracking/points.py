"""Points of a metric's history, packed into items.

The points of one key that come in one call become one item. Its columns (steps, times, values) are
compressed: steps and times of a training loop shrink to almost nothing, so a thousand points take
about 8 KB.

The key of an item begins with its first point. It ends with the value of a single point, or with
the number of points and the last one's step and time. A reader can thus count and skip items by
their keys (see :mod:`~mlflow_dynamodbstore.tracking.series`).
"""

from __future__ import annotations

import hashlib
import math
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby, islice, pairwise, repeat
from operator import lt
from typing import NamedTuple

from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys.encoding import int_of, ordered_float, ordered_int
from mlflow_dynamodbstore.shared.places import RunPlace
from mlflow_dynamodbstore.table.errors import damaged_item
from mlflow_dynamodbstore.table.values import TTL, Item, Value

_WRAP = 1 << 64
_HALF = 1 << 63
_FORMAT = b"\x01"
DISORDERED = "disordered"
"""Attribute of a latest metric whose history, sorted by step, is not sorted by time.

Nearly all histories are, and are read page by page by step; the reader sorts the others.
"""


class Point(NamedTuple):
    """One logged value. Points compare as MLflow orders a history by step."""

    step: int
    timestamp: int
    value: float


StepTime = tuple[int, int]
"""A step and a timestamp: history items are in the order of these."""


NOTHING_BEFORE: StepTime = (-_HALF, -_HALF)


class Span(NamedTuple):
    """Where the points of a history item begin and end, and how many there are."""

    first: StepTime
    last: StepTime
    size: int


def points_from(columns: Iterable[tuple[int, int, float]]) -> Iterator[Point]:
    """Points from their steps, times and values; several times faster than calling Point."""
    return map(tuple.__new__, repeat(Point), columns)


def order(point: Point) -> tuple[int, int, float, bool]:
    """What a point is sorted by; MLflow keeps NaN as a zero that is marked as NaN."""
    nan = math.isnan(point.value)
    return point.step, point.timestamp, 0.0 if nan else point.value, nan


def in_order(points: list[Point]) -> list[Point]:
    """Points by step, time and value, each once."""
    # No number is less than NaN, so points with NaN at one step and time are sorted.
    if all(map(lt, points, islice(points, 1, None))):
        return points
    return [next(same) for _, same in groupby(sorted(points, key=order), key=order)]


def is_greater(one: Point, other: Point) -> bool:
    """Whether a point is the later of two by step, time and value, as MLflow compares them."""
    return order(one)[:3] > order(other)[:3]


class Extent(NamedTuple):
    """The first and greatest of a key's points, and whether their times rise with their steps.

    ``in_order`` is None when that is not known, since the points of two extents overlap. They may
    be the same points: those of a log that grew while somebody else folded it.
    """

    first: StepTime
    top: Point
    in_order: bool | None


def merged_extent(extents: Iterable[Extent]) -> Extent:
    """The extent of all their points."""
    first, *further = sorted(extents, key=lambda extent: extent.first)
    for extent in further:
        top = extent.top if is_greater(extent.top, first.top) else first.top
        first = Extent(first.first, top, _are_in_order(first, extent))
    return first


def _are_in_order(one: Extent, other: Extent) -> bool | None:
    """Whether the points of two extents are in order together; ``one`` does not begin later."""
    if one.in_order is False or other.in_order is False:
        return False
    if one.top.step > other.first[0] or None in (one.in_order, other.in_order):
        return None
    return one.top.timestamp <= other.first[1]


def extent_of(points: Sequence[Point]) -> Extent:
    """The extent of points that are in order by step."""
    first, top = points[0], points[-1]
    rising = all(a.timestamp <= b.timestamp for a, b in pairwise(points))
    return Extent((first.step, first.timestamp), top, rising)


def latest_extent(item: Item) -> Extent:
    """What the item of a latest metric says; its first point is not known."""
    return Extent(NOTHING_BEFORE, latest_point(item), DISORDERED not in item)


def latest_item(run: RunPlace, key: str, extent: Extent) -> Item:
    """The item of a latest metric."""
    step, timestamp, value = extent.top
    attributes: dict[str, Value] = {"step": step, "ts": timestamp, "value": value}
    if not extent.in_order:
        attributes[DISORDERED] = True
    return run.child(run_keys.run_metric(run.run_id, key), key, attributes)


def history_item(run: RunPlace, name: str, points: Sequence[Point], ttl: int | None) -> Item:
    """The item for some points of one key.

    Its key is made from its content, so that sending it again changes nothing.
    """
    points = in_order(list(points))
    first = points[0]
    if len(points) == 1:
        content: Item = {"value": first.value}
        # Values that are the same to MLflow (0.0 and -0.0, all NaNs) share one key.
        suffix = ordered_float(first.value)
    else:
        packed = pack(points)
        content = {"points": packed}
        suffix = _pack_suffix(points, hashlib.blake2b(packed, digest_size=8).hexdigest())
    if ttl is not None:
        content[TTL] = ttl
    sk = run_keys.run_metric_point(run.run_id, name, first.step, first.timestamp, suffix)
    return run.child(sk, name, content)


def unfolded_item(run: RunPlace, name: str, points: list[Point]) -> Item:
    """Points in order that are still in the log, in the place of the item that they will become.

    It is only read, so the points stay as they are.
    """
    first = points[0]
    suffix = _pack_suffix(points, "")
    sk = run_keys.run_metric_point(run.run_id, name, first.step, first.timestamp, suffix)
    return run.child(sk, name, {"points": points})


def _pack_suffix(points: Sequence[Point], digest: str) -> str:
    last = points[-1]
    return f"p{len(points):04x}{ordered_int(last.step)}{ordered_int(last.timestamp)}{digest}"


def span_of(sk: str) -> Span:
    """The extent of a history item, from its key."""
    step, timestamp, suffix = run_keys.metric_point_of(sk)
    first = (step, timestamp)
    if suffix is None or suffix[0] != "p":
        return Span(first, first, 1)
    return Span(first, (int_of(suffix[5:21]), int_of(suffix[21:37])), int(suffix[1:5], 16))


def latest_point(item: Item) -> Point:
    """The point that the item of a latest metric holds."""
    return Point(item["step"], item["ts"], item["value"])


def points_of(item: Item, span: Span) -> list[Point]:
    """The points of a history item, in order."""
    if "value" in item:
        return [Point(*span.first, item["value"])]
    if isinstance(item["points"], list):
        return item["points"]
    try:
        return unpack(item["points"])
    except (zlib.error, struct.error, ValueError, TypeError) as error:
        raise damaged_item(item["PK"], item["SK"], "points") from error


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
    columns_of_points = zip(steps, times, numbers[2 * count :], strict=True)
    return list(points_from(columns_of_points))


def _differences(numbers: Sequence[int]) -> list[int]:
    """Each number minus the one before, wrapped to 64 bits; the sums unwrap it."""
    before = [0, *numbers[:-1]]
    return [
        (number - last + _HALF) % _WRAP - _HALF
        for number, last in zip(numbers, before, strict=True)
    ]


def _sums(differences: Sequence[int]) -> list[int]:
    sums = list(accumulate(differences))
    if sums and min(sums) >= -_HALF and max(sums) < _HALF:
        return sums
    return [(number + _HALF) % _WRAP - _HALF for number in sums]
