"""What was seen last: a guess that saves a read, never an answer by itself."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Memory(Generic[K, V]):
    """The values put most recently, up to a number; safe to use from many threads."""

    def __init__(self, size: int):
        self._size = size
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            if len(self._values) > self._size:
                self._values.popitem(last=False)

    def forget(self, key: K) -> None:
        with self._lock:
            self._values.pop(key, None)
