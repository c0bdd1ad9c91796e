"""The volumes of experiments: the partitions over which one is spread.

An experiment begins as one partition, its first volume, which holds what it has once: its own item
META, tags, scorers, reviews, datasets. A run, a trace or a logged model lies in one volume with all
that belongs to it, and its id or locator says in which. META lists the volumes of an experiment
that has more than one. New things go to one of the open ones; a closed one takes no new things,
but what lies in it may grow and change.

A search asks all volumes, so it must know them. Reading META each time would cost a request, so a
process takes the list it has read in the last ``KNOWN_SECONDS``. A volume is therefore announced
long before it is needed, and used once every process knows it. A process that has the table in a
local file reads META each time.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple, TypeAlias, TypeVar
from zlib import crc32

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.keys.ids import MOST_VOLUMES
from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.optimistic import Outdated, optimistically
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.shared.volume_states import (
    ALWAYS,
    NOTHING,
    RESERVE,
    VOLUMES,
    WIDTH,
    Span,
    Volume,
    VolumeState,
    states_in,
    widened,
)
from mlflow_dynamodbstore.table.contract import Query, is_full
from mlflow_dynamodbstore.table.errors import CollectionFull, ConditionFailed, TableError
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.undo import UndoneIfFull
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item

T = TypeVar("T")
_logger = logging.getLogger(__name__)

KNOWN_SECONDS = 20.0
"""How long a process relies on the list of volumes that it has read."""
ANNOUNCED_SECONDS = 60
"""Time from the announcement of a volume to its use: every process has read META since."""
ANNOUNCED_WHEN_FULL = 0.3
"""How full a volume is when the next one is announced."""
CLOSED_WHEN_FULL = 0.6
"""How full a volume is when it closes; the rest is for what lies in it."""
HOT_SECONDS = 10.0
"""How long a partition is throttled, while others are not, before further volumes open."""
RELIEF_SECONDS = 2 * ANNOUNCED_SECONDS
MOST_OPENED = 64
"""Up to how many open volumes throttling alone opens more."""
REQUESTED = "request_time"
SURELY_NOT_FULL = 0.3
"""How full a volume is at least that may have refused to grow."""
MOST_FULL_VOLUMES = 4
"""Full volumes in a row after which a call gives up: what it writes does not fit into any."""
RESERVE_BYTES = 2048
"""Room that META keeps for its list, since the list must grow even if the first volume is full."""


VolumesChange: TypeAlias = Callable[[list[VolumeState]], list[VolumeState]]


class _Known(NamedTuple):
    """What META said about the volumes of its experiment when it was read."""

    at: float
    states: list[VolumeState]
    width: int = 1


class Volumes:
    """Which volumes experiments have, and which of them takes something new."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self._reads_always = table.engine.capabilities.local is not None
        self._known: BoundedCache[str, _Known] = BoundedCache()

    # --- reading --------------------------------------------------------------------------------

    def of(self, experiment_ids: Iterable[str]) -> list[Volume]:
        """All volumes of some experiments."""
        wanted = list(dict.fromkeys(experiment_ids))
        self._refresh(wanted)
        return [Volume(one, state.number) for one in wanted for state in self._states(one)]

    def partitions(self, experiment_id: str) -> list[str]:
        """The partition keys of all volumes of an experiment."""
        return [volume.pk for volume in self.of([experiment_id])]

    def state(self, volume: Volume) -> VolumeState:
        """What was last read about a volume."""
        found = (s for s in self._states(volume.experiment_id) if s.number == volume.number)
        return next(found, VolumeState(volume.number))

    def note(self, meta: Item) -> None:
        """Take note of META that was read for another reason."""
        known = _Known(time.monotonic(), states_in(meta), meta.get(WIDTH, 1))
        self._known.put(experiment_id_of(meta), known)

    def _states(self, experiment_id: str) -> list[VolumeState]:
        known = self._known.get(experiment_id)
        return [VolumeState(0)] if known is None else known.states

    def _width(self, experiment_id: str) -> int:
        """How many volumes of an experiment are to be open."""
        known = self._known.get(experiment_id)
        return 1 if known is None else known.width

    def _refresh(self, experiment_ids: Sequence[str]) -> None:
        """Read META of those experiments whose volumes are not known well enough."""
        oldest = time.monotonic() - KNOWN_SECONDS
        unknown = [
            one
            for one in experiment_ids
            if self._reads_always or (known := self._known.get(one)) is None or known.at < oldest
        ]
        if len(unknown) == 1:
            found = self.table.get(experiment_keys.experiment_key(unknown[0]))
            metas = [] if found is None else [found]
        else:
            metas = list(self.table.get_many(map(experiment_keys.experiment_key, unknown)).values())
        now = time.monotonic()
        for one in unknown:
            self._known.put(one, _Known(now, [VolumeState(0)]))
        for meta in metas:
            self.note(meta)

    # --- choosing -------------------------------------------------------------------------------

    def choose(self, experiment_id: str, name: str | None = None) -> int:
        """The volume for something new: one of the open ones, always the same for a name.

        It is chosen by what was last read, which may be a while ago.
        """
        states = self._states(experiment_id)
        if len(states) == 1:
            return states[0].number
        open_ones = [state for state in states if state.closed is None] or states
        ready = [state for state in open_ones if self._is_known_to_all(state)] or open_ones
        if name is None:
            return random.choice(ready).number
        return ready[crc32(name.encode()) % len(ready)].number

    def _is_known_to_all(self, state: VolumeState) -> bool:
        """Whether every process has read META since a volume was announced."""
        return self._reads_always or self.table.clock() - state.since >= ANNOUNCED_SECONDS

    def takes_more(self, experiment_id: str, number: int) -> bool:
        """Whether a volume was open when META was last read."""
        return any(
            state.number == number and state.closed is None for state in self._states(experiment_id)
        )

    def place(self, experiment_id: str, name: str | None, begin: Callable[[int], T]) -> T:
        """The result of beginning something in a volume, or in another one if that is full.

        What ``begin`` has written to the full one is left to cleanup, or to ``begin`` itself.
        """
        tries = 0
        while True:
            number = self.choose(experiment_id, name)
            try:
                with UndoneIfFull():
                    result = begin(number)
            except TableError as error:
                tries += 1
                self.note_new(experiment_id, number)  # a volume may be too hot for any to begin
                if not is_full(error) or tries == MOST_FULL_VOLUMES:
                    raise
                if not self.may_be_full(experiment_id, number):
                    raise  # what it adds to lies in another volume
                self.close(experiment_id, number)
            else:
                self.note_new(experiment_id, number)
                return result

    def may_be_full(self, experiment_id: str, number: int) -> bool:
        """Whether it can be this volume that has refused to grow."""
        share = self.table.collection_share(experiment_keys.volume_pk(experiment_id, number))
        return share is None or share >= SURELY_NOT_FULL

    # --- opening and closing --------------------------------------------------------------------

    def note_new(self, experiment_id: str, number: int) -> None:
        """After something began in a volume: open others if this one is too hot, or fills."""
        pk = experiment_keys.volume_pk(experiment_id, number)
        if self.table.throttled_seconds(pk) > HOT_SECONDS:
            with _kept_from_failing(experiment_id):
                self._relieve(experiment_id)
        self.note_growth(experiment_id, number)

    def note_growth(self, experiment_id: str, number: int) -> None:
        """After something was added to a volume: announce others, or close it, if it is time."""
        if not self.table.is_limited:
            return
        share = self.table.collection_share(experiment_keys.volume_pk(experiment_id, number))
        if share is not None and share >= ANNOUNCED_WHEN_FULL:
            with _kept_from_failing(experiment_id):
                self._refresh([experiment_id])
                self._replace(experiment_id, number, share)

    def _replace(self, experiment_id: str, number: int, share: float) -> None:
        """Announce a volume that is to follow one, and close that once as many others are open."""
        width = self._width(experiment_id)
        others = [
            state
            for state in self._states(experiment_id)
            if state.closed is None and state.number != number
        ]
        if len(others) < width:
            self._open(experiment_id, width, besides=number)
        elif (
            share >= CLOSED_WHEN_FULL
            and self.takes_more(experiment_id, number)
            and sum(map(self._is_known_to_all, others)) >= width
        ):
            self.close(experiment_id, number)
            self.measure(experiment_id)

    def _relieve(self, experiment_id: str) -> None:
        """Double the open volumes of an experiment that takes more writes than they can.

        Not while the last ones are so new that they could not help yet.
        """
        open_ones = [s for s in self._states(experiment_id) if s.closed is None]
        newest = max((state.since for state in open_ones), default=0)
        if self.table.clock() - newest > RELIEF_SECONDS:
            doubled = min(2 * len(open_ones), MOST_OPENED)
            self.spread(experiment_id, max(doubled, self._width(experiment_id)))

    def spread(self, experiment_id: str, count: int) -> list[VolumeState]:
        """Announce volumes so that at least ``count`` are open, from now on; returns all volumes.

        A volume that closes is replaced, so that as many stay open.
        """
        return self._open(experiment_id, count, width=count)

    def _open(
        self,
        experiment_id: str,
        count: int,
        *,
        besides: int | None = None,
        width: int | None = None,
    ) -> list[VolumeState]:
        """Announce volumes so that ``count`` are open, one of them not counted."""

        def more(states: list[VolumeState]) -> list[VolumeState]:
            missing = count - sum(s.closed is None and s.number != besides for s in states)
            return [*states, *self._new(states, missing)]

        return self._change(experiment_id, more, width)

    def close(self, experiment_id: str, number: int) -> list[VolumeState]:
        """Let a volume take no new things; another opens if it was the last open one."""
        now = int(self.table.clock())

        def closed(states: list[VolumeState]) -> list[VolumeState]:
            after = [
                state._replace(closed=now)
                if state.number == number and state.closed is None
                else state
                for state in states
            ]
            if all(state.closed is not None for state in after):
                after += self._new(after, self._width(experiment_id))
            return after

        return self._change(experiment_id, closed)

    # --- the spans of closed volumes ------------------------------------------------------------

    def measure(self, experiment_id: str) -> None:
        """Note the spans of volumes that closed a while ago, so that searches can put them off.

        Measured twice, before and after it is noted: a trace may change its time meanwhile, and
        who changes it looks for a noted span afterwards.
        """
        self._note_spans(experiment_id, only_new=True)
        self._note_spans(experiment_id, only_new=False)

    def _note_spans(self, experiment_id: str, *, only_new: bool) -> None:
        settled = self.table.clock() - ANNOUNCED_SECONDS
        spans = {
            state.number: self._spans(Volume(experiment_id, state.number))
            for state in self._states(experiment_id)
            if state.closed is not None
            and state.closed <= settled
            and (state.runs is None or not only_new)
        }
        if spans:
            self._change(
                experiment_id,
                lambda states: [
                    state._replace(runs=spans[state.number][0], traces=spans[state.number][1])
                    if state.number in spans
                    else state
                    for state in states
                ],
            )

    def drop_empty(self, experiment_id: str) -> int:
        """Take closed volumes that hold nothing any more off the list; returns how many."""
        self._refresh([experiment_id])
        settled = self.table.clock() - ANNOUNCED_SECONDS
        empty = {
            state.number
            for state in self._states(experiment_id)
            if state.number
            and state.closed is not None
            and state.closed <= settled
            and self._is_empty(Volume(experiment_id, state.number))
        }
        if empty:
            self._change(
                experiment_id, lambda states: [one for one in states if one.number not in empty]
            )
        return len(empty)

    def _is_empty(self, volume: Volume) -> bool:
        # Keys alone do not say what has expired: an item counts until the storage removes it.
        keys = self.table.items(Query(volume.pk, limit=1, keys_only=True))
        return next(keys, None) is None

    def _spans(self, volume: Volume) -> tuple[Span, Span]:
        ranges = (index_keys.runs_by_time(), "start_time"), (index_keys.traces_by_time(), REQUESTED)
        runs, traces = (self._span(volume, within, name) for within, name in ranges)
        return runs, traces

    def _span(self, volume: Volume, within: Range, name: str) -> Span:
        """The first and last time in a range of the index by time."""
        query = Query(volume.pk, within.on("lsi2sk"), "LSI2", limit=1)
        first = next(self.table.items(query), None)
        last = next(self.table.items(replace(query, descending=True)), None)
        if first is None or last is None:
            return NOTHING
        times = first[name], last[name]
        # A run without a start time comes last in an order by time, whatever its volume.
        return Span(*times) if None not in times else ALWAYS

    def widen(self, volume: Volume, time_ms: int) -> None:
        """After a trace got another time: let the span of a closed volume hold it."""
        self._refresh([volume.experiment_id])
        if self.state(volume).closed is None:
            return

        def wider(states: list[VolumeState]) -> list[VolumeState]:
            return [
                state._replace(traces=widened(state.traces, time_ms))
                if state.number == volume.number and state.traces is not None
                else state
                for state in states
            ]

        self._change(volume.experiment_id, wider)

    def _new(self, states: Sequence[VolumeState], count: int) -> list[VolumeState]:
        first = max(state.number for state in states) + 1
        now = int(self.table.clock())
        return [VolumeState(n, now) for n in range(first, min(first + count, MOST_VOLUMES))]

    def _change(
        self, experiment_id: str, change: VolumesChange, width: int | None = None
    ) -> list[VolumeState]:
        key = experiment_keys.experiment_key(experiment_id)

        def attempt() -> list[VolumeState]:
            meta = self.table.get(key)
            if meta is None:
                return []
            before = states_in(meta)
            after = change(before)
            changes: Item = {}
            if after != before:
                changes[VOLUMES] = [state.to_value() for state in after]
            if width not in (None, meta.get(WIDTH, 1)):
                changes[WIDTH] = width
            if changes:
                self._write(meta, changes)
            self.note({**meta, **changes})
            return after

        return optimistically(f"Experiment {experiment_id}", attempt)

    def _write(self, meta: Item, changes: Item) -> None:
        """Change META, which need not become larger: then it uses what it keeps in reserve."""
        key, unchanged = self.table.schema.key_of(meta), _unchanged(meta)
        with_reserve = {**changes, RESERVE: "." * RESERVE_BYTES}
        try:
            try:
                self.table.update(key, Update(set=with_reserve), condition=unchanged)
            except CollectionFull:
                left = RESERVE_BYTES + item_size(meta) - item_size({**meta, **with_reserve})
                kept = {RESERVE: "." * left} if left > 0 else {}
                smaller = Update(set={**changes, **kept}, remove=() if kept else (RESERVE,))
                self.table.update(key, smaller, condition=unchanged)
        except ConditionFailed as refused:
            raise Outdated from refused


@contextmanager
def _kept_from_failing(experiment_id: str) -> Iterator[None]:
    """What opens and closes volumes does not fail the call that noticed, which has succeeded."""
    try:
        yield
    except (TableError, MlflowException) as error:
        _logger.warning("No volume of experiment %s was opened: %s", experiment_id, error)


def _unchanged(meta: Item) -> ConditionBase:
    """The volumes are those that META listed when it was read."""
    if VOLUMES in meta:
        return Attr(VOLUMES).eq(meta[VOLUMES])
    return PRESENT & Attr(VOLUMES).not_exists()
