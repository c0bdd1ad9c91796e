"""What the metric log of a run holds, and how it is read.

A call becomes an *entry*: when it was made, and its points in columns. The entries of a writer fill
*segments*, items of up to a kilobyte that grow with each call. A writer's *head* says which of its
segments are folded into the history, and the latest value of each key among them. The *latest
values* of the run say the same of segments that others have folded and removed.

A history is a set of points, and a latest value is the greatest, so it does no harm to find a point
both in the log and in the history.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, NamedTuple

import msgpack

from mlflow_dynamodbstore.keys import metric_log as log_keys
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.places import RunPlace
from mlflow_dynamodbstore.shared.policies import DAY
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.errors import damaged_item
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.tracking.points import (
    Extent,
    Point,
    StepTime,
    extent_of,
    history_item,
    in_order,
    is_greater,
    merged_extent,
    points_from,
)

VERSION, ENTRIES, VALUES, AT = "n", "entries", "values", "at"
"""Attributes of log items: which write of a slot this is, entries, latest values, last call."""
SETTLED = "settled"
"""Attribute of log items whose points are in the run's latest metrics and histories too.

They expire soon, and serve only readers that have read the run before it was sealed.
"""
CALLS = 1 << 20
"""More calls than a segment holds: a version is its number, times this, plus its calls."""
LARGE_ENTRY = 2_000
POINTS_IN_PACK = 8_000
LOGS_AT_ONCE = 8
"""Logs that are read with a query each; more are read with one query over all between them."""
_COMPRESSED = 1
_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, zlib.error, msgpack.UnpackException)


class Entry(NamedTuple):
    """One call: its second, and a key, step, time and value of each of its points.

    One step or time stands for all points that share it.
    """

    at: int
    keys: tuple[str, ...]
    steps: int | Sequence[int]
    times: int | Sequence[int]
    values: Sequence[float]

    @classmethod
    def of(cls, at: int, points: Mapping[str, Sequence[Point]]) -> Entry:
        keys = tuple(points)
        flat = [some[0] for some in points.values()]
        if max(map(len, points.values())) > 1:
            keys = tuple(key for key, some in points.items() for _ in some)
            flat = [point for some in points.values() for point in some]
        steps, times, values = zip(*flat, strict=True)
        return cls(
            at,
            keys,
            steps[0] if len(set(steps)) == 1 else steps,
            times[0] if len(set(times)) == 1 else times,
            values,
        )

    def packed(self, before: tuple[str, ...] | None) -> bytes:
        """The entry as bytes; without its keys when they are those of the entry before it."""
        keys = None if self.keys == before else self.keys
        raw: bytes = msgpack.packb((self.at, keys, self.steps, self.times, self.values))
        if len(raw) > LARGE_ENTRY:
            raw = msgpack.packb(msgpack.ExtType(_COMPRESSED, zlib.compress(raw)))
        return raw

    def points(self) -> Iterator[tuple[str, Point]]:
        count = len(self.keys)
        steps = [self.steps] * count if isinstance(self.steps, int) else self.steps
        times = [self.times] * count if isinstance(self.times, int) else self.times
        return zip(self.keys, points_from(zip(steps, times, self.values, strict=True)), strict=True)


def entries_of(packed: bytes) -> Iterator[Entry]:
    """The entries of a segment, in the order of their calls."""
    reader = msgpack.Unpacker(use_list=False, strict_map_key=False, ext_hook=_decompress)
    reader.feed(packed)
    before: tuple[str, ...] | None = None
    for at, keys, steps, times, values in reader:
        before = before if keys is None else keys
        if before is None:
            raise ValueError("the first entry of a segment names no keys")
        yield Entry(at, before, steps, times, values)
    if reader.tell() != len(packed):
        raise ValueError("the last entry of a segment is not complete")


def _decompress(code: int, data: bytes) -> Any:
    if code != _COMPRESSED:
        raise ValueError(f"unknown code {code} in a log entry")
    return msgpack.unpackb(zlib.decompress(data), use_list=False)


def pack_extents(extents: Mapping[str, Extent]) -> bytes:
    """The latest values of a writer or run."""
    values = {key: (*first, *top, rising) for key, (first, top, rising) in extents.items()}
    raw: bytes = msgpack.packb(values)
    return zlib.compress(raw) if len(raw) > LARGE_ENTRY else raw


def _unpack_extents(packed: bytes) -> dict[str, Extent]:
    raw = zlib.decompress(packed) if packed[:1] == b"\x78" else packed
    return {
        key: Extent((first_step, first_time), Point(step, time, value), ordered)
        for key, (first_step, first_time, step, time, value, ordered) in msgpack.unpackb(
            raw
        ).items()
    }


class RunLog:
    """The log of one run, as it was read."""

    def __init__(self, items: Sequence[Item] = ()) -> None:
        self.items = items

    @property
    def last_call(self) -> int:
        """The second of the last call in the log; 0 when it is empty."""
        return max((item[AT] for item in self.items), default=0)

    @cached_property
    def latest_item(self) -> Item | None:
        """The latest values of what others have folded."""
        for item in self.items:
            if log_keys.log_item_of(item["SK"]).writer == log_keys.LATEST:
                return item
        return None

    @cached_property
    def entries(self) -> list[Entry]:
        """The calls that are not folded."""
        return self._entries(settled=False)

    def _entries(self, *, settled: bool) -> list[Entry]:
        folded: dict[str, int] = {}
        segments: list[tuple[str, Item]] = []
        for item in self.items:
            _, writer, part = log_keys.log_item_of(item["SK"])
            if part == log_keys.HEAD:
                folded[writer] = item[VERSION]
            elif part and (SETTLED in item) == settled:
                segments.append((writer, item))
        found: list[Entry] = []
        for writer, item in segments:
            if item[VERSION] > folded.get(writer, 0):
                try:
                    found += entries_of(item[ENTRIES])
                except _UNREADABLE as error:
                    raise damaged_item(item["PK"], item["SK"], ENTRIES) from error
        return found

    def _folded_extents(self, *, settled: bool) -> Iterator[tuple[str, Extent]]:
        """The latest values of heads and of the run, perhaps with those that are settled."""
        for item in self.items:
            if VALUES in item and (settled or SETTLED not in item):
                try:
                    yield from _unpack_extents(item[VALUES]).items()
                except _UNREADABLE as error:
                    raise damaged_item(item["PK"], item["SK"], VALUES) from error

    def latest(self) -> dict[str, Point]:
        """The greatest point of each key, folded or not."""
        best: dict[str, Point] = {}
        for key, (_, top, _) in self._folded_extents(settled=True):
            _keep_greater(best, key, top)
        # Of the calls with the same keys, one step and one time, only the last can win.
        rows: dict[tuple[str, ...], list[Entry]] = {}
        for entry in (*self.entries, *self._entries(settled=True)):
            if not (isinstance(entry.steps, int) and isinstance(entry.times, int)):
                for key, point in entry.points():
                    _keep_greater(best, key, point)
                continue
            row = rows.setdefault(entry.keys, [entry])
            at, greatest = (entry.steps, entry.times), (row[0].steps, row[0].times)
            if at > greatest:
                row[:] = [entry]
            elif at == greatest and row[0] is not entry:
                row.append(entry)
        for row in rows.values():
            for entry in row:
                for key, point in entry.points():
                    _keep_greater(best, key, point)
        return best

    def points(self) -> dict[str, list[Point]]:
        """The unfolded points of each key, in order, each once."""
        return _points_by_key(self.entries)

    def extents(self) -> dict[str, Extent]:
        """The extent of each key, but for what the run's rows hold."""
        return self._extents(settled=False)

    def all_extents(self) -> dict[str, Extent]:
        """The extent of each key."""
        return self._extents(settled=True)

    def _extents(self, *, settled: bool) -> dict[str, Extent]:
        found: dict[str, list[Extent]] = defaultdict(list)
        for key, extent in self._folded_extents(settled=settled):
            found[key].append(extent)
        for key, _, points in self._packs:
            found[key].append(extent_of(points))
        return {key: merged_extent(some) for key, some in found.items()}

    def history(self, run: RunPlace, retention_days: int) -> Iterator[Item]:
        """History items with the unfolded points, each with the expiry of its day."""
        last: dict[int, int] = {}
        for entry in self.entries:
            last[entry.at // DAY] = max(last.get(entry.at // DAY, 0), entry.at)
        for key, day, points in self._packs:
            expiry = last[day] + retention_days * DAY if retention_days > 0 else None
            for some in batched(points, POINTS_IN_PACK):
                yield history_item(run, key, some, expiry)

    @cached_property
    def _points_by_day(self) -> dict[tuple[str, int], list[Point]]:
        """The unfolded points of each key that were logged on one day, in order, each once."""
        days: dict[int, list[Entry]] = defaultdict(list)
        for entry in self.entries:
            days[entry.at // DAY].append(entry)
        return {
            (key, day): points
            for day, entries in days.items()
            for key, points in _points_by_key(entries).items()
        }

    @cached_property
    def _packs(self) -> list[tuple[str, int, list[Point]]]:
        """The unfolded points of each key and day, cut where points begin that others have folded.

        An item that lies around others would have to be read with each of them.
        """
        cuts: dict[str, set[StepTime]] = defaultdict(set)
        for key, extent in self._folded_extents(settled=False):
            cuts[key].add(extent.first)
        found: list[tuple[str, int, list[Point]]] = []
        for (key, day), points in self._points_by_day.items():
            places = [bisect_left(points, cut) for cut in sorted(cuts.get(key, ()))]
            ends = [0, *places, len(points)]
            found += [(key, day, points[a:b]) for a, b in pairwise(ends) if a < b]
        return found


def _points_by_key(entries: Sequence[Entry]) -> dict[str, list[Point]]:
    """The points of each key, in order, each once."""
    found: dict[str, list[Point]] = defaultdict(list)
    for keys, group in groupby(entries, key=attrgetter("keys")):
        calls = list(group)
        steps = [call.steps for call in calls if isinstance(call.steps, int)]
        times = [call.times for call in calls if isinstance(call.times, int)]
        if len(steps) == len(times) == len(calls):
            columns = zip(*(call.values for call in calls), strict=True)
            for key, values in zip(keys, columns, strict=True):
                found[key] += points_from(zip(steps, times, values, strict=True))
        else:
            for call in calls:
                for key, point in call.points():
                    found[key].append(point)
    return {key: in_order(points) for key, points in found.items()}


def _keep_greater(best: dict[str, Point], key: str, point: Point) -> None:
    known = best.get(key)
    if known is None or is_greater(point, known):
        best[key] = point


# --- reading ------------------------------------------------------------------------------------


def read_log(table: Table, run: RunPlace) -> RunLog:
    """The log of one run."""
    return RunLog(list(table.items(log_query(run.pk, run.run_id))))


def log_query(pk: str, run_id: str) -> Query:
    """The query that brings the log of a run."""
    return Query(pk, log_keys.run_log(run_id).on())


def log_queries(runs: Mapping[str, Sequence[str]]) -> list[Query]:
    """The queries that bring the logs of some runs, and perhaps of others; the ids by partition."""
    if sum(map(len, runs.values())) <= LOGS_AT_ONCE:
        return [log_query(pk, run_id) for pk, run_ids in runs.items() for run_id in run_ids]
    return [Query(pk, log_keys.run_logs(run_ids).on()) for pk, run_ids in runs.items()]


def logs_of(items: Iterable[Item]) -> dict[str, RunLog]:
    """Log items by their runs."""
    by_run: dict[str, list[Item]] = defaultdict(list)
    for item in items:
        by_run[log_keys.log_item_of(item["SK"]).run_id].append(item)
    return {run_id: RunLog(some) for run_id, some in by_run.items()}
