"""Logging metrics to runs: each call adds one entry to the run's log.

A writer is one process that logs to one run. It puts its calls into a segment, which grows with
each call until it has about a kilobyte: one write unit. Nothing is read, and writers never meet.
Threads share the segment of their process. A put carries all calls of the segment so far, and is
made on the condition that it is newer than the stored one, so of two puts on their way the later
one wins, and holds the calls of both.

When a dozen segments are full the writer *folds* them: it writes their points, packed by key, to
the history, then the head that says so, and uses their slots again. What is left is folded when the
run ends or rests (:mod:`~mlflow_dynamodbstore.tracking.sealing`).
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.keys import metric_log as log_keys
from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.places import RunPlace
from mlflow_dynamodbstore.shared.policies import METRIC_HISTORY_RETENTION
from mlflow_dynamodbstore.table.conditions import Template
from mlflow_dynamodbstore.table.contract import Outcome, Put
from mlflow_dynamodbstore.table.errors import TableError
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.tracking.log_entries import (
    AT,
    CALLS,
    ENTRIES,
    VALUES,
    VERSION,
    Entry,
    RunLog,
    entries_of,
    pack_extents,
)
from mlflow_dynamodbstore.tracking.points import Extent, Point, merged_extent

_logger = logging.getLogger(__name__)

SEGMENT_BYTES = 850
"""With its keys and other attributes, a segment of this size takes one write unit."""
SEGMENTS_BEFORE_FOLDING = 12
"""A log of this length is read for three units, and its packs of about 90 points take one each."""
BYTES_BEFORE_FOLDING = 512 * 1024
LARGEST_ENTRY = 200 * 1024
POINTS_THAT_FIT = 150
"""Points that fit into an entry, however long their names (at most 250 characters)."""
WRITERS = 4096


@dataclass
class Segment:
    """Calls that share an item of the log."""

    number: int  # rises from one segment of a writer to the next
    slot: int
    entries: bytearray = field(default_factory=bytearray)
    calls: int = 0
    at: int = 0
    keys: tuple[str, ...] | None = None
    in_flight: int = 0
    is_certain: bool = True  # whether the table holds these entries; if not, they are read back
    removed: set[int] = field(default_factory=set)

    def item(self, run: RunPlace, writer: str) -> Item:
        """The segment as the log holds it."""
        return {
            "PK": run.pk,
            "SK": log_keys.log_segment(run.run_id, writer, self.slot),
            VERSION: self.number * CALLS + self.calls,
            AT: self.at,
            ENTRIES: bytes(self.entries),
        }


@dataclass
class Writer:
    """The segments of one process for one run; changed under its lock."""

    run: RunPlace
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    lock: Lock = field(default_factory=Lock)
    current: Segment | None = None
    full: list[Segment] = field(default_factory=list)
    free_slots: list[int] = field(default_factory=list)
    slots: int = 0
    segments: int = 0
    extents: dict[str, Extent] = field(default_factory=dict)  # of what it has folded
    is_folding: bool = False

    def add(self, entry: Entry) -> Append:
        """Add a call to the segment; the put is still to be made."""
        with self.lock:
            segment = self.current or self._next()
            packed = entry.packed(segment.keys)
            if segment.calls and len(segment.entries) + len(packed) > SEGMENT_BYTES:
                segment = self._next()
                packed = entry.packed(None)
            segment.entries += packed
            segment.keys = entry.keys
            segment.at = entry.at
            segment.calls += 1
            segment.in_flight += 1
            return Append(self, segment, segment.calls - 1, self._put(segment))

    def without(self, append: Append) -> Put:
        """The put that takes a call out of the log again."""
        with self.lock:
            segment = append.segment
            self.close(segment)
            segment.removed.add(append.call)
            before, kept = None, bytearray()
            for call, entry in enumerate(entries_of(bytes(segment.entries))):
                if call not in segment.removed:
                    kept += entry.packed(before)
                    before = entry.keys
            segment.calls += 1
            segment.is_certain = False
            put = self._put(segment)
            return replace(put, item={**put.item, ENTRIES: bytes(kept)})

    def _put(self, segment: Segment) -> Put:
        item = segment.item(self.run, self.id)
        return Put(item, _is_newer(item[VERSION]), "old")

    def close(self, segment: Segment) -> None:
        """Begin another segment with the next call."""
        if self.current is segment:
            self.full.append(segment)
            self.current = None

    def _next(self) -> Segment:
        if self.current is not None:
            self.full.append(self.current)
        if self.free_slots:
            slot = self.free_slots.pop()
        else:
            slot, self.slots = self.slots, self.slots + 1
        self.segments += 1
        self.current = Segment(self.segments, slot)
        return self.current

    def take_full(self) -> list[Segment]:
        """The segments to fold now, oldest first; the caller folds them and calls :meth:`folded`.

        A segment with a put on its way stays, and so do those after it.
        """
        with self.lock:
            size = sum(len(segment.entries) for segment in self.full)
            is_due = len(self.full) >= SEGMENTS_BEFORE_FOLDING or size > BYTES_BEFORE_FOLDING
            if self.is_folding or not is_due:
                return []
            taken = []
            for segment in self.full:
                if segment.in_flight:
                    break
                taken.append(segment)
            self.is_folding = bool(taken)
            return taken

    def folded(self, segments: Sequence[Segment], extents: dict[str, Extent] | None) -> None:
        """The end of folding; without ``extents`` it failed."""
        with self.lock:
            self.is_folding = False
            if extents is not None and self.full[: len(segments)] == list(segments):
                self.extents = extents
                del self.full[: len(segments)]
                self.free_slots += [segment.slot for segment in segments]

    def renew(self) -> str | None:
        """Begin anew under another id; returns the old id if nothing of it is on its way."""
        with self.lock:
            segments = [*self.full, *([self.current] if self.current else [])]
            quiet = not self.is_folding and all(one.in_flight == 0 for one in segments)
            old, self.id = self.id, secrets.token_hex(4)
            self.current, self.full, self.free_slots, self.slots = None, [], [], 0
            self.extents = {}
            return old if quiet else None


@dataclass
class Append:
    """The put of one call, and what is noted when its outcome is known."""

    writer: Writer
    segment: Segment
    call: int
    put: Put

    def written(self, outcome: Outcome) -> None:
        """Note that the put was made, or refused by a later one, which holds this call too."""
        with self.writer.lock:
            self.segment.in_flight -= 1
            if outcome.status == "refused":
                stands = 0 if outcome.image is None else outcome.image[VERSION]
                if stands // CALLS != self.segment.number:
                    self.segment.is_certain = False
                    self.writer.close(self.segment)

    def failed(self) -> None:
        """Note that it is not known whether the put was made."""
        with self.writer.lock:
            self.segment.in_flight -= 1
            self.segment.is_certain = False
            self.writer.close(self.segment)


class MetricLog:
    """Adds calls to the logs of runs, and folds what this process has added."""

    def __init__(self, context: Context) -> None:
        self.table = context.table
        self.policies = context.policies
        self._writers: BoundedCache[tuple[int, str], Writer] = BoundedCache(size=WRITERS)
        self._lock = Lock()

    def begin(self, run: RunPlace, points: Mapping[str, Sequence[Point]]) -> list[Append]:
        """The puts that log a call: one, or several for a call too large for an item."""
        if not points:
            return []
        writer = self._writer(run)
        entry = Entry.of(int(self.table.clock()), points)
        return [writer.add(some) for some in _split(entry)]

    def undo(self, appends: Sequence[Append]) -> None:
        """Take calls out of the log again."""
        self.table.write([append.writer.without(append) for append in appends])

    def fold_if_due(self, appends: Sequence[Append]) -> bool:
        """Fold the full segments of this process once there are enough of them.

        The calls are stored, whatever happens here: a failure leaves them for the next folding.
        Returns whether it was tried.
        """
        folded = False
        for writer in {append.writer.id: append.writer for append in appends}.values():
            segments = writer.take_full()
            if not segments:
                continue
            extents = None
            try:
                extents = self._fold(writer, segments)
            except TableError as error:
                _logger.info("metrics of run %s are folded later: %s", writer.run.run_id, error)
            finally:
                writer.folded(segments, extents)
            folded = True
        return folded

    def retire_writer(self, run_id: str) -> str | None:
        """Let the next call to a run come from a new writer; returns the id of the old one.

        None when there was none, or when a put of it is on its way.
        """
        writer = self._writers.get((os.getpid(), run_id))
        return None if writer is None else writer.renew()

    def _writer(self, run: RunPlace) -> Writer:
        key = os.getpid(), run.run_id  # a child of this process is another writer
        writer = self._writers.get(key)
        if writer is None:
            with self._lock:
                writer = self._writers.get(key)
                if writer is None:
                    writer = Writer(run)
                    self._writers.put(key, writer)
        return writer

    def _fold(self, writer: Writer, segments: Sequence[Segment]) -> dict[str, Extent]:
        run, last = writer.run, segments[-1]
        log = RunLog([item for one in segments if (item := self._item(writer, one)) is not None])
        extents = dict(writer.extents)
        for key, extent in log.extents().items():
            known = [extents[key]] if key in extents else []
            extents[key] = merged_extent([*known, extent])
        version = (last.number + 1) * CALLS - 1
        head: Item = {
            "PK": run.pk,
            "SK": log_keys.log_head(run.run_id, writer.id),
            VERSION: version,
            AT: log.last_call,
            VALUES: pack_extents(extents),
        }
        history = log.history(run, self.policies.get(METRIC_HISTORY_RETENTION))
        self.table.write([Put(item) for item in history], then=[Put(head, _is_newer(version))])
        return extents

    def _item(self, writer: Writer, segment: Segment) -> Item | None:
        """The item of a full segment; read from the table if a put of it failed."""
        sk = log_keys.log_segment(writer.run.run_id, writer.id, segment.slot)
        if not segment.is_certain:
            found = self.table.get(Key(writer.run.pk, sk))
            # An item of an earlier segment in this slot is folded: the puts of this one failed.
            return found if found and found[VERSION] // CALLS == segment.number else None
        return segment.item(writer.run, writer.id)


def _split(entry: Entry) -> list[Entry]:
    """An entry, or several if it is too large for an item."""
    count = len(entry.values)
    if count <= POINTS_THAT_FIT or len(entry.packed(None)) <= LARGEST_ENTRY:
        return [entry]
    half = count // 2
    return [*_split(_part(entry, slice(half))), *_split(_part(entry, slice(half, None)))]


def _part(entry: Entry, some: slice) -> Entry:
    at, keys, steps, times, values = entry
    return Entry(
        at,
        keys[some],
        steps if isinstance(steps, int) else steps[some],
        times if isinstance(times, int) else times[some],
        values[some],
    )


_is_newer = Template(lambda version: ABSENT | Attr(VERSION).lt(version), 1)
"""There is no item, or one of an earlier write to this slot."""
