"""How fast requests may follow each other, by partition.

DynamoDB throttles a partition, not a process. While requests to one are throttled, every request to
it waits a random time up to its *pace*; those to other partitions do not. The pace grows with each
throttled answer and shrinks with each good one, such that it rests where about a third of the
requests is throttled: fewer would leave capacity unused, and stray throttling slows nobody down. It
also halves every quarter of a second, so that full speed is back soon after the pressure ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable

from mlflow_dynamodbstore.table.counters import COUNTERS, THROTTLES

FIRST_PACE = 0.002
LONGEST_PACE = 0.5
FULL_SPEED_BELOW = 0.0005
SLOWER, FASTER = 1.1, 0.95
HALF_LIFE = 0.25
MOST_PARTITIONS = 10_000
FEW_PARTITIONS = 8
"""Throttled partitions up to which they, and not the whole table, are too hot."""


class Pacing:
    """The paces of the partitions that were throttled a moment ago; all times in seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        # Each with when it was right, and when it began.
        self._paces: dict[str, tuple[float, float, float]] = {}

    def pace(self, partitions: Iterable[str]) -> float:
        """The longest time that a request to these partitions should wait."""
        paces = self._paces
        if not paces:
            return 0.0  # nearly always
        now = self._monotonic()
        return max((self._now(partition, now) for partition in partitions), default=0.0)

    def throttled(self, partitions: Collection[str]) -> None:
        """Note that a request to these partitions, if there are any, was throttled."""
        if not partitions:
            return
        COUNTERS.add(THROTTLES)
        now = self._monotonic()
        with self._lock:
            for partition in partitions:
                pace = self._now(partition, now)
                began = self._paces[partition][2] if pace else now
                longer = max(FIRST_PACE, pace * SLOWER)
                self._paces[partition] = (min(LONGEST_PACE, longer), now, began)
            if len(self._paces) > MOST_PARTITIONS:
                self._forget(now)

    def succeeded(self, partitions: Iterable[str]) -> None:
        """Note that requests to these partitions went through."""
        if not self._paces:
            return
        now = self._monotonic()
        with self._lock:
            for partition in partitions:
                if partition in self._paces:
                    began = self._paces[partition][2]
                    self._paces[partition] = (self._now(partition, now) * FASTER, now, began)
                    if not self._now(partition, now):
                        del self._paces[partition]

    def throttled_seconds(self, partition: str) -> float:
        """For how long requests to a partition have been throttled; 0 if they are not.

        If many partitions are, the table is throttled, not this one: 0 as well.
        """
        if partition not in self._paces:
            return 0.0
        now = self._monotonic()
        with self._lock:
            slow = sum(1 for name in self._paces if self._now(name, now))
            if slow > FEW_PARTITIONS or not self._now(partition, now):
                return 0.0
            return now - self._paces[partition][2]

    def _now(self, partition: str, now: float) -> float:
        pace, at, _ = self._paces.get(partition, (0.0, now, now))
        pace *= 0.5 ** ((now - at) / HALF_LIFE)
        return pace if pace >= FULL_SPEED_BELOW else 0.0

    def _forget(self, now: float) -> None:
        """Forget the partitions that are at full speed again; if all are slow, forget all."""
        slow = {name: kept for name, kept in self._paces.items() if self._now(name, now)}
        self._paces = slow if len(slow) < MOST_PARTITIONS else {}
