"""How busy each partition is: requests, units and throttled requests of the last hour.

DynamoDB limits each partition, so requests to one may be throttled while the table as a whole has
little to do. A partition takes :data:`WRITE_UNITS_A_SECOND` and :data:`READ_UNITS_A_SECOND`.
"""

from __future__ import annotations

import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import NamedTuple

from mlflow_dynamodbstore.table.counters import PERIOD_SECONDS

PERIODS_KEPT = 12  # an hour
MOST_PARTITIONS = 2_000
"""Partitions counted in a period. If there are more, the less busy half is forgotten."""
KEPT_PARTITIONS = 100
"""Partitions of a past period that are kept: the busiest."""
WRITE_UNITS_A_SECOND = 1_000
READ_UNITS_A_SECOND = 3_000


class Partition(NamedTuple):
    """A partition of a table, which is named by its URI without options."""

    table: str
    pk: str


class Heat(NamedTuple):
    """What was asked of a partition; a file has no units."""

    requests: float = 0.0
    read_units: float = 0.0
    write_units: float = 0.0
    throttles: float = 0.0

    def plus(self, other: Heat) -> Heat:
        return Heat(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    @property
    def seconds_of_capacity(self) -> float:
        """How many seconds of what a partition takes these units are."""
        return self.write_units / WRITE_UNITS_A_SECOND + self.read_units / READ_UNITS_A_SECOND

    @property
    def rank(self) -> tuple[float, float, float]:
        """The busiest partition has the greatest rank."""
        return self.throttles, self.seconds_of_capacity, self.requests


Heats = dict[Partition, Heat]
HeatPeriod = tuple[float, Heats]
"""When a period of :data:`PERIOD_SECONDS` began, and what was counted in it."""
_Sums = dict[tuple[str, str], list[float]]  # plain: added to with each request


class PartitionCounters:
    """Counts by partition; any thread may add."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Begin again, as the child of a fork does."""
        self._lock = Lock()  # another thread of the parent may hold the old one
        self._now: _Sums = {}
        self._ends = self._end_of_this_period()
        self._periods: deque[HeatPeriod] = deque(maxlen=PERIODS_KEPT)

    def add(
        self,
        table: str,
        pks: Sequence[str],
        *,
        requests: float = 1.0,
        read_units: float = 0.0,
        write_units: float = 0.0,
        throttles: float = 0.0,
    ) -> None:
        """Count a request for the partitions of its items, for each by its share of the items."""
        with self._lock:
            if self._clock() >= self._ends:
                self._end_period()
            for pk, items in _shares(pks):
                counted = self._now.get((table, pk))
                if counted is None:
                    counted = self._now[table, pk] = [0.0, 0.0, 0.0, 0.0]
                counted[0] += items * requests
                counted[1] += items * read_units
                counted[2] += items * write_units
                counted[3] += items * throttles
            if len(self._now) > MOST_PARTITIONS:
                busiest = _busiest(self._now, MOST_PARTITIONS // 2)
                self._now = {partition: list(heat) for partition, heat in busiest.items()}

    def periods(self) -> list[HeatPeriod]:
        """The last hour, oldest period first; the last one goes on."""
        with self._lock:
            if self._clock() >= self._ends:
                self._end_period()
            since = self._ends - (PERIODS_KEPT + 1) * PERIOD_SECONDS
            past = [one for one in self._periods if one[0] >= since]
            return [*past, self._this_period()]

    def _this_period(self) -> HeatPeriod:
        return self._ends - PERIOD_SECONDS, _busiest(self._now, KEPT_PARTITIONS)

    def _end_period(self) -> None:
        if self._now:
            self._periods.append(self._this_period())
        self._now = {}
        self._ends = self._end_of_this_period()

    def _end_of_this_period(self) -> float:
        return (self._clock() // PERIOD_SECONDS + 1) * PERIOD_SECONDS


def _shares(pks: Sequence[str]) -> Iterable[tuple[str, float]]:
    if pks and pks.count(pks[0]) == len(pks):
        return ((pks[0], 1.0),)  # nearly always
    return [(pk, items / len(pks)) for pk, items in Counter(pks).items()]


def _busiest(sums: _Sums, count: int) -> Heats:
    heats = {Partition(*partition): Heat(*counted) for partition, counted in sums.items()}
    if len(heats) <= count:
        return heats
    return dict(sorted(heats.items(), key=lambda one: one[1].rank, reverse=True)[:count])


def table_name(uri: str) -> str:
    """The name under which a table's partitions are counted."""
    return uri.partition("?")[0]


PARTITION_COUNTERS = PartitionCounters()
"""The counters of this process."""
os.register_at_fork(after_in_child=PARTITION_COUNTERS.reset)
