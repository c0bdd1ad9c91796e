"""How long to wait, and when to give up."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from mlflow_dynamodbstore.table.counters import COUNTERS, RETRIES
from mlflow_dynamodbstore.table.pacing import Pacing


@dataclass
class Retry:
    """Jittered, growing pauses until a deadline, and the pace of each partition."""

    deadline: float = 30.0
    first_pause: float = 0.02
    longest_pause: float = 2.0
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    rng: random.Random = field(default_factory=random.Random)
    pacing: Pacing = field(init=False)

    def __post_init__(self) -> None:
        self.pacing = Pacing(self.monotonic)

    def attempts(self, partitions: Collection[str] = ()) -> Iterator[int]:
        """Count attempts from 0, pausing before each, until the deadline has passed.

        Before the first attempt there is only a pause while the partitions are throttled. There are
        at least two attempts, even when the first one outlasts the deadline.
        """
        give_up = self.monotonic() + self.deadline
        attempt, longest = 0, 0.0
        while True:
            longest = max(longest, self.pacing.pace(partitions))
            if longest:
                self.sleep(self.rng.uniform(0, longest))
            yield attempt
            attempt += 1
            if attempt > 1 and self.monotonic() >= give_up:
                return
            COUNTERS.add(RETRIES)
            longest = min(self.longest_pause, self.first_pause * 2.0 ** min(attempt - 1, 20))
