"""The longest chain of requests in a call: how often it waits for DynamoDB, one after another.

The count is exact and does not depend on the machine. While it is taken, the calls that the pool of
threads would make in parallel are made one after another, on a clock that each request moves by
one. Calls in parallel start at the same time, and whoever waits for them goes on at the time of the
last. With more calls than the pool has threads, a call starts when the first of them is free.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mlflow_dynamodbstore.table.contract import Engine, Observable
from mlflow_dynamodbstore.table.workers import PARALLEL_REQUESTS, Task, replaced_workers
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine


@dataclass
class Chain:
    """What was counted: ``length`` of the longest chain, and every request with its time."""

    length: int = 0
    requests: list[tuple[int, str]] = field(default_factory=list)

    def steps(self) -> str:
        """The requests of each step."""
        steps: dict[int, list[str]] = {}
        for time, operation in sorted(self.requests):
            steps.setdefault(time, []).append(operation)
        return ", then ".join(
            " + ".join(f"{some.count(one)} {one}" for one in dict.fromkeys(some))
            for some in steps.values()
        )

    def __str__(self) -> str:
        return f"{self.length} in a chain, {len(self.requests)} requests: {self.steps()}"


@contextmanager
def counted_chain(engine: Engine) -> Iterator[Chain]:
    """Count the requests of the calls in the block, as if each call followed the one before it.

    The engine must send requests to DynamoDB, or to what speaks its protocol. The block must not
    start threads of its own.
    """
    observable = _observable(engine)
    before = observable.observer
    clock = _Clock(PARALLEL_REQUESTS)

    def observe(operation: str, answer: Mapping[str, Any], request: Mapping[str, Any]) -> None:
        clock.tick(operation)
        if before is not None:
            before(operation, answer, request)

    observable.observer = observe
    try:
        with replaced_workers(clock):
            yield clock.chain
    finally:
        observable.observer = before


class _Clock:
    """Logical time, which stands still but for requests; also the pool that tasks run in."""

    def __init__(self, size: int) -> None:
        self.chain = Chain()
        self._size = size
        self._now = 0

    def tick(self, operation: str) -> None:
        self._now += 1
        self.chain.requests.append((self._now, operation))
        self.chain.length = max(self.chain.length, self._now)

    def run(self, tasks: Sequence[Task]) -> None:
        """Run tasks as the pool does, each on the worker that is free first."""
        free = [self._now] * min(self._size, len(tasks))
        last = self._now
        for task in tasks:
            self._now = heapq.heappop(free)
            task()
            heapq.heappush(free, self._now)
            last = max(last, self._now)
        self._now = last


def _observable(engine: Engine) -> Observable:
    while isinstance(engine, WrappedEngine):
        engine = engine.inner
    observable = engine.capabilities.observable
    if observable is None:
        raise TypeError("requests are counted on DynamoDB, not on a file")
    return observable
