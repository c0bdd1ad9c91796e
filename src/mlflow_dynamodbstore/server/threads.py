"""Threads for what would hold up the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")

THREADS = 40  # as many as MLflow's own bridge has
LONG_SECONDS = 0.25


class Threads:
    """Threads that start when they are first needed."""

    def __init__(self, name: str, count: int = THREADS) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)

    async def run(self, work: Callable[[], T]) -> T:
        """The result of some work, done in a thread that sees the caller's context variables."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, copy_context().run, work)


class OneAtATime:
    """One thread for work that needs the processor, and others while it is held up.

    Two threads that need the processor take the interpreter's lock from each other: sixteen
    searches at once took half as long again as one after the other, and the slowest three times as
    long. Work that comes while the thread has been busy for long is done elsewhere.
    """

    def __init__(self, name: str, others: Threads) -> None:
        self._thread = Threads(name, 1)
        self._others = others
        self._busy_since = float("inf")

    async def run(self, work: Callable[[], T]) -> T:
        """The result of some work, done in a thread that sees the caller's context variables."""
        if time.monotonic() - self._busy_since > LONG_SECONDS:
            return await self._others.run(work)
        return await self._thread.run(lambda: self._noted(work))

    def _noted(self, work: Callable[[], T]) -> T:
        self._busy_since = time.monotonic()
        try:
            return work()
        finally:
            self._busy_since = float("inf")
