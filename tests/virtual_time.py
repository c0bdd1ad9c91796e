"""Threads on a clock of their own: one at a time, in an order that is always the same.

A thread runs until it sleeps; then the one that wakes first goes on, and the clock jumps to its
time. So a minute of many threads takes as long as their work, and a measured rate does not depend
on the machine.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Sequence


class VirtualTime:
    """The clock of some threads: ``sleep`` and, when called, the time in seconds."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sleeping: list[tuple[float, int, threading.Event]] = []
        self._order = itertools.count()
        self._stopped = threading.Event()
        self._error: BaseException | None = None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let the others run until this many seconds have passed. Only threads of ``run`` may."""
        woken = self._queue(seconds)
        self._stopped.set()
        woken.wait()

    def run(self, functions: Sequence[Callable[[], None]]) -> None:
        """Run each function in a thread, until all have ended; raises the first error."""
        for function in functions:
            thread = threading.Thread(target=self._run, args=(function, self._queue(0.0)))
            thread.daemon = True  # one that an error of another leaves asleep ends with the process
            thread.start()
        while self._sleeping and self._error is None:
            self.now, _, woken = heapq.heappop(self._sleeping)
            self._stopped.clear()
            woken.set()
            self._stopped.wait()
        if self._error is not None:
            raise self._error

    def _queue(self, seconds: float) -> threading.Event:
        woken = threading.Event()
        heapq.heappush(self._sleeping, (self.now + seconds, next(self._order), woken))
        return woken

    def _run(self, function: Callable[[], None], woken: threading.Event) -> None:
        woken.wait()
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - raised by run
            self._error = error
        self._stopped.set()
