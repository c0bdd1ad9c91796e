"""Threads for what would hold up the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")

THREADS = 40  # as many as MLflow's own bridge has


class Threads:
    """Threads that start when they are first needed."""

    def __init__(self, name: str, count: int = THREADS) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)

    async def run(self, work: Callable[[], T]) -> T:
        """The result of some work, done in a thread that sees the caller's context variables."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, copy_context().run, work)
