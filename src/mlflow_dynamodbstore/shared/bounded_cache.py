"""The one cache of the stores: bounded in size and in age, safe to use from many threads.

A cached value was true a moment ago. It saves a read where a later conditional write or a later
read notices a change; it is never an answer by itself.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from math import inf
from threading import Lock
from typing import Generic, TypeVar

from mlflow_dynamodbstore.table.counters import COUNTERS, HITS, MISSES

K = TypeVar("K")
V = TypeVar("V")

USUAL_SIZE = 10_000


class BoundedCache(Generic[K, V]):
    """The values put most recently: at most ``size``, each at most ``seconds`` old.

    The hits and misses of a cache that has a ``name`` are counted under it.
    """

    def __init__(
        self,
        size: int = USUAL_SIZE,
        seconds: float = inf,
        clock: Callable[[], float] = time.monotonic,
        name: str | None = None,
    ):
        self._name = name
        self._size = size
        self._seconds = seconds
        self._clock = clock
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """The value; None when it is too old or was never put."""
        entry = self._entries.get(key)
        found = None
        if entry is not None and self._clock() - entry[0] <= self._seconds:
            found = entry[1]
        if self._name is not None:
            COUNTERS.add(MISSES if found is None else HITS, operation=self._name)
        return found

    def put(self, key: K, value: V) -> None:
        """Keep a value; a full cache drops the one put longest ago."""
        with self._lock:
            self._entries[key] = (self._clock(), value)
            self._entries.move_to_end(key)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)

    def forget(self, key: K) -> None:
        """Drop one value."""
        with self._lock:
            self._entries.pop(key, None)

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._entries.clear()
