"""How long to wait, and when to give up."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from mlflow_dynamodbstore.table.counters import COUNTERS, RETRIES, THROTTLES

FULL_SPEED_BELOW = 0.001


@dataclass
class Retry:
    """Jittered, growing pauses until a deadline, and a pace that adapts to throttling.

    All threads of a table share the pace. A throttled answer doubles the wait before every request
    and a good answer shortens it, so that everyone sends less to a table under pressure.
    """

    deadline: float = 30.0
    first_pause: float = 0.02
    longest_pause: float = 2.0
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    rng: random.Random = field(default_factory=random.Random)
    _pace: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def attempts(self) -> Iterator[int]:
        """Count attempts from 0, pausing before each but the first, until the deadline has passed.

        There are at least two attempts, even when the first one outlasts the deadline.
        """
        give_up = self.monotonic() + self.deadline
        attempt = 0
        while True:
            if self._pace:
                self.sleep(self.rng.uniform(0, self._pace))
            yield attempt
            attempt += 1
            if attempt > 1 and self.monotonic() >= give_up:
                return
            COUNTERS.add(RETRIES)
            longest = min(self.longest_pause, self.first_pause * 2.0 ** min(attempt - 1, 20))
            self.sleep(self.rng.uniform(0, longest))

    def throttled(self) -> None:
        """Note that the table asked for fewer requests."""
        COUNTERS.add(THROTTLES)
        with self._lock:
            self._pace = min(self.longest_pause, max(self.first_pause, self._pace * 2))

    def succeeded(self) -> None:
        """Note that a request went through."""
        if self._pace:
            with self._lock:
                self._pace *= 0.8
                if self._pace < FULL_SPEED_BELOW:
                    self._pace = 0.0
