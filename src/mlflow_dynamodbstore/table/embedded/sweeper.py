"""Remove expired items in the background.

One daemon thread serves all open tables of a process. It starts with the first table and ends with
the last. It holds tables weakly, so that one that was never closed can be collected.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from typing import Protocol

from mlflow_dynamodbstore.table.errors import TableError

FIRST_PAUSE = 10.0
PAUSE = 60.0

logger = logging.getLogger(__name__)


class Sweepable(Protocol):
    """A table that can be swept."""

    def sweep(self) -> int:
        """Remove expired items and return how many."""


class Sweeper:
    """The thread and its tables."""

    def __init__(self, first: float = FIRST_PAUSE, every: float = PAUSE) -> None:
        self._first = first
        self._every = every
        self.reset_after_fork()

    def reset_after_fork(self) -> None:
        """Start without thread and tables, also in a forked child, where the thread is gone."""
        self._lock = threading.Lock()
        self._tables: weakref.WeakSet[Sweepable] = weakref.WeakSet()
        self._failing: weakref.WeakSet[Sweepable] = weakref.WeakSet()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def watch(self, table: Sweepable) -> None:
        """Start sweeping a table."""
        with self._lock:
            self._tables.add(table)
            if self._thread is None:
                self._start()

    def unwatch(self, table: Sweepable) -> None:
        """Stop sweeping a table; the thread ends with the last."""
        with self._lock:
            self._tables.discard(table)
            if not self._tables and self._thread is not None:
                self._stop.set()
                self._thread = None

    def _start(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(self._stop,), name="table-sweeper", daemon=True
        )
        self._thread.start()

    def _run(self, stop: threading.Event) -> None:
        pause = self._first
        while not stop.wait(pause):
            self._sweep_all()  # a separate function, so that the pause holds no table
            pause = self._every

    def _sweep_all(self) -> None:
        with self._lock:
            tables = list(self._tables)
        for table in tables:
            self._sweep(table)

    def _sweep(self, table: Sweepable) -> None:
        try:
            removed = table.sweep()
        except TableError as error:
            # The next sweep tries again, but warns only once. A table that was closed meanwhile is
            # no error.
            if table in self._tables and table not in self._failing:
                self._failing.add(table)
                logger.warning("expired items could not be removed: %s", str(error))
        else:
            self._failing.discard(table)
            logger.debug("removed %d expired items", removed)


sweeper = Sweeper()
os.register_at_fork(after_in_child=sweeper.reset_after_fork)
