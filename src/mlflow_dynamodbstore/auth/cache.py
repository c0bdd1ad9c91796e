"""A cache of the answers to permission checks.

Every write through a ``CacheClearingTable`` clears the cache of this process, so a change holds
here as soon as its call returns. Other processes see it when their answers are ``SECONDS`` old.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import TypeVar, cast
from weakref import WeakKeyDictionary

from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.table.table import Table

SECONDS = 2.0
SIZE = 10_000

T = TypeVar("T")
Question = tuple[object, ...]

_fresh: ContextVar[bool] = ContextVar("fresh", default=False)


class AnswerCache:
    """At most ``size`` answers, each read less than ``seconds`` ago."""

    def __init__(
        self,
        seconds: float = SECONDS,
        size: int = SIZE,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._seconds = seconds
        self._clock = clock
        self._answers: BoundedCache[Question, tuple[float, object]] = BoundedCache(
            size, name="permissions"
        )
        self._generation = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._answers)

    def answer(self, question: Question, read: Callable[[], T]) -> T:
        """The cached answer, or what ``read`` returns; callers must not change it.

        None is not cached: what is created elsewhere is found at once.
        """
        now = self._clock()
        cached = None if _fresh.get() else self._answers.get(question)
        if cached is not None and now < cached[0]:
            return cast("T", cached[1])
        generation = self._generation
        answer = read()
        if answer is not None:
            with self._lock:
                # An answer that was read before a change must not be cached after it.
                if generation == self._generation:
                    self._answers.put(question, (now + self._seconds, answer))
        return answer

    def clear(self) -> None:
        """Drop all answers, also those that are being read right now."""
        with self._lock:
            self._generation += 1
            self._answers.clear()


@contextmanager
def fresh_answers() -> Iterator[None]:
    """Read every answer from the table within this block."""
    token = _fresh.set(True)
    try:
        yield
    finally:
        _fresh.reset(token)


_caches: WeakKeyDictionary[Table, AnswerCache] = WeakKeyDictionary()
_caches_lock = Lock()


def cache_of(table: Table) -> AnswerCache:
    """The one cache that all auth stores of a table share in this process."""
    with _caches_lock:
        return _caches.setdefault(table, AnswerCache())
