"""Time that tests control."""

from __future__ import annotations

import random
from dataclasses import dataclass

from mlflow_dynamodbstore.table.retry import Retry


@dataclass
class FakeTime:
    """A clock that moves only when somebody sleeps on it or sets it.

    It stands far in the future, so that nothing a test lets expire by this clock has expired by
    the real one, which background sweeps go by.
    """

    now: float = 4_000_000_000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def patient_retry(time: FakeTime, *, deadline: float = 600.0, seed: int = 0) -> Retry:
    """Retries that sleep on fake time, so that they take none."""
    return Retry(deadline=deadline, sleep=time.sleep, monotonic=time, rng=random.Random(seed))
