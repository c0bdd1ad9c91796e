"""How fast requests may follow each other, by partition.

DynamoDB throttles a partition, not a process. While requests to one are throttled, every request to
it waits a random time up to its *pace*; those to other partitions do not. The pace grows with each
throttled answer and shrinks with each good one, such that it rests where about a third of the
requests is throttled: fewer would leave capacity unused, and stray throttling slows nobody down. It
also halves every quarter of a second, so that full speed is back soon after the pressure ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

FIRST_PACE = 0.002
LONGEST_PACE = 0.5
FULL_SPEED_BELOW = 0.0005
SLOWER, FASTER = 1.1, 0.95
HALF_LIFE = 0.25
MOST_PARTITIONS = 10_000


class Pacing:
    """The paces of the partitions that were throttled a moment ago; all times in seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._paces: dict[str, tuple[float, float]] = {}  # and when each was right

    def pace(self, partitions: Iterable[str]) -> float:
        """The longest time that a request to these partitions should wait."""
        paces = self._paces
        if not paces:
            return 0.0  # nearly always
        now = self._monotonic()
        return max((self._now(partition, now) for partition in partitions), default=0.0)

    def throttled(self, partitions: Iterable[str]) -> None:
        """Note that requests to these partitions were throttled."""
        now = self._monotonic()
        with self._lock:
            for partition in partitions:
                longer = max(FIRST_PACE, self._now(partition, now) * SLOWER)
                self._paces[partition] = (min(LONGEST_PACE, longer), now)
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
                    self._paces[partition] = (self._now(partition, now) * FASTER, now)
                    if not self._now(partition, now):
                        del self._paces[partition]

    def _now(self, partition: str, now: float) -> float:
        pace, at = self._paces.get(partition, (0.0, now))
        pace *= 0.5 ** ((now - at) / HALF_LIFE)
        return pace if pace >= FULL_SPEED_BELOW else 0.0

    def _forget(self, now: float) -> None:
        """Forget the partitions that are at full speed again; if all are slow, forget all."""
        slow = {name: kept for name, kept in self._paces.items() if self._now(name, now)}
        self._paces = slow if len(slow) < MOST_PARTITIONS else {}
