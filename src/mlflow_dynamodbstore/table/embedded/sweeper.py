"""Remove expired items in the background.

One thread serves all open tables of a process. It is a daemon, starts with the first table and
ends with the last, and holds tables weakly: one that is dropped without being closed is let go.
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
        """Remove what has expired, and say how many items that were."""


class Sweeper:
    """The thread, and the tables it looks after."""

    def __init__(self, first: float = FIRST_PAUSE, every: float = PAUSE) -> None:
        self._first = first
        self._every = every
        self.reset_after_fork()

    def reset_after_fork(self) -> None:
        """In a forked child, where the thread does not exist: wait to be told of a table."""
        self._lock = threading.Lock()
        self._tables: weakref.WeakSet[Sweepable] = weakref.WeakSet()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def watch(self, table: Sweepable) -> None:
        """Sweep a table from now on."""
        with self._lock:
            self._tables.add(table)
            if self._thread is None:
                self._start()

    def unwatch(self, table: Sweepable) -> None:
        """Leave a table alone; the thread ends with the last."""
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
            self._sweep_all()  # a function of its own, to hold no table through the pause
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
            # Nobody waits for it, and the next round tries again. A table closed meanwhile is fine.
            if table in self._tables:
                logger.warning("expired items could not be removed: %s", str(error))
        else:
            logger.debug("removed %d expired items", removed)


sweeper = Sweeper()
os.register_at_fork(after_in_child=sweeper.reset_after_fork)
