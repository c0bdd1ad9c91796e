"""Engines far away that throttle, on a clock that tests control, and how much gets through them."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Engine, Got, Patch, Put, TransactWrite, Write
from mlflow_dynamodbstore.table.errors import Throttled
from mlflow_dynamodbstore.table.request_checks import key_of
from mlflow_dynamodbstore.table.retry import Retry
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine
from tests.faults import FaultyEngine
from tests.virtual_time import VirtualTime

LATENCY = 0.006
THREADS = 32

THROTTLED = 0.2
LOST = 0.02


@dataclass
class Goodput:
    """Calls that came through in so many seconds, beside those that could have."""

    seconds: float
    ideal: float  # calls a second
    calls: int = 0
    requests: int = 0
    slowest: float = 0.0
    by_second: Counter[int] = field(default_factory=Counter)
    by_partition: Counter[str] = field(default_factory=Counter)

    @property
    def share(self) -> float:
        """The part of the ideal that came through."""
        return self.calls / self.seconds / self.ideal

    def __str__(self) -> str:
        return (
            f"{self.calls / self.seconds:,.0f} calls a second, {100 * self.share:.0f} % of the "
            f"ideal {self.ideal:,.0f}; {self.requests / max(1, self.calls):.2f} requests a call, "
            f"the slowest {self.slowest:.2f} s"
        )


class FarEngine(WrappedEngine):
    """Takes so long to answer, whatever the answer is, and counts requests."""

    def __init__(self, inner: Engine, time: VirtualTime, seconds: float = LATENCY) -> None:
        super().__init__(inner)
        self.requests = 0
        self._time = time
        self._seconds = seconds

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        self._travel()
        return self.inner.get(key, consistent=consistent)

    def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> Got:
        self._travel()
        return self.inner.get_many(keys, consistent=consistent)

    def apply(self, write: Write) -> Item | None:
        self._travel()
        return self.inner.apply(write)

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        self._travel()
        self.inner.transact(writes, token)

    def _travel(self) -> None:
        self.requests += 1
        self._time.sleep(self._seconds)


class CrowdedEngine(WrappedEngine):
    """Lets through so many requests a second in each partition, as ``capacity`` says."""

    def __init__(
        self, inner: Engine, time: VirtualTime, capacity: Callable[[str], float | None]
    ) -> None:
        super().__init__(inner)
        self._time = time
        self._capacity = capacity
        self._filled: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        self._take(key.pk)
        return self.inner.get(key, consistent=consistent)

    def apply(self, write: Write) -> Item | None:
        self._take(key_of(self.schema, write).pk)
        return self.inner.apply(write)

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        for partition in {key_of(self.schema, write).pk for write in writes}:
            self._take(partition)
        self.inner.transact(writes, token)

    def _take(self, partition: str) -> None:
        """Take a token of a partition's bucket, which holds those of a tenth of a second."""
        capacity = self._capacity(partition)
        if capacity is None:
            return
        at, tokens = self._filled[partition]
        now = self._time()
        tokens = min(max(1.0, capacity / 10), tokens + (now - at) * capacity)
        self._filled[partition] = (now, tokens - 1 if tokens >= 1 else tokens)
        if tokens < 1:
            raise Throttled(f"more than {capacity} requests a second to {partition}")


Crowd: TypeAlias = Callable[[Engine, VirtualTime], Engine]


@contextmanager
def far_table(folder: Path, crowd: Crowd) -> Iterator[tuple[Table, FarEngine, VirtualTime]]:
    """A table on a file, far away behind what ``crowd`` puts before it."""
    time = VirtualTime()
    engine = open_engine(f"dynamodb:///{folder}/far.ddb?synchronous=NORMAL")
    far = FarEngine(crowd(engine, time), time)
    retry = Retry(sleep=time.sleep, monotonic=time, rng=random.Random(1))
    table = Table(far, retry=retry)
    yield table, far, time
    table.close()


def call_for(
    seconds: float,
    ideal: float,
    partitions: Sequence[str],
    table: Table,
    far: FarEngine,
    time: VirtualTime,
) -> Goodput:
    """Reads, additions and transactions for so long, by a thread for each partition named."""
    done = Goodput(seconds, ideal)

    def work(thread: int, partition: str) -> None:
        for number in itertools.count():
            began = time()
            if began >= seconds:
                return
            _call(table, partition, thread, number)
            done.slowest = max(done.slowest, time() - began)
            if time() < seconds:
                done.calls += 1
                done.by_second[int(time())] += 1
                done.by_partition[partition] += 1

    time.run([partial(work, thread, one) for thread, one in enumerate(partitions)])
    done.requests = far.requests
    return done


def _call(table: Table, partition: str, thread: int, number: int) -> None:
    key = Key(partition, f"{thread:02}")
    kind = number % 3
    if kind == 0:
        table.get(key)
    elif kind == 1:
        table.update(key, Update(add={"n": 1}))
    else:
        fresh = {"PK": partition, "SK": f"{thread:02}-{number:06}"}
        table.transact([Put(fresh, Attr("PK").not_exists()), Patch(key, Update(add={"n": 1}))])


def random_throttling(engine: Engine, _: VirtualTime) -> Engine:
    """A fifth of all requests throttled, and one in fifty answers lost."""
    rng = random.Random(2)
    return FaultyEngine(engine, throttle=THROTTLED, partial=0.0, timeout_after=LOST, rng=rng)


RANDOM_IDEAL = THREADS / (LATENCY / (1 - THROTTLED) / (1 - LOST))
"""Calls a second if each is repeated at once."""
