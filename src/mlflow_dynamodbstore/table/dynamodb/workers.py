"""A few threads that send requests in parallel."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from queue import SimpleQueue
from typing import TypeAlias

Task: TypeAlias = Callable[[], None]


class Workers:
    """Runs up to ``size`` tasks at once; the caller's thread is one of the workers.

    Since the caller works too, a single task needs no thread, and tasks that call :meth:`run`
    cannot wait for each other for ever. The threads start when they are first needed, and are
    daemons.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._reset()

    def run(self, tasks: Sequence[Task]) -> None:
        """Do all tasks and return when the last is done.

        The first error of a task keeps the others from starting, and is raised here.
        """
        job = _Job(tasks)
        helpers = min(self._size, len(tasks)) - 1
        if helpers > 0:
            self._start(helpers)
            for _ in range(helpers):
                self._queue.put(job)
        job.work()
        job.wait()

    def close(self) -> None:
        """End the threads."""
        with self._lock:
            threads, queue = self._threads, self._queue
            self._reset()
        for _ in range(threads):
            queue.put(None)

    def _start(self, wanted: int) -> None:
        with self._lock:
            if self._pid != os.getpid():
                self._reset()  # threads do not survive a fork
            while self._threads < wanted:
                name = f"dynamodb-{self._threads}"
                worker = threading.Thread(
                    target=_serve, args=(self._queue,), name=name, daemon=True
                )
                worker.start()
                self._threads += 1

    def _reset(self) -> None:
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = 0
        self._pid = os.getpid()


class _Job:
    """Tasks that several threads take one by one."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = iter(tasks)
        self._context = copy_context()  # what a task sends counts for the caller's operation
        self._left = len(tasks)
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._error: BaseException | None = None
        if not tasks:
            self._done.set()

    def work(self) -> None:
        while True:
            with self._lock:
                task = next(self._tasks, None)
            if task is None:
                return
            error = None
            try:
                if self._error is None:  # after an error no other task starts
                    self._context.copy().run(task)
            except BaseException as raised:  # noqa: BLE001 - raised in the caller's thread
                error = raised
            with self._lock:
                self._left -= 1
                self._error = self._error or error
                if not self._left:
                    self._done.set()

    def wait(self) -> None:
        self._done.wait()
        if self._error is not None:
            raise self._error


def _serve(queue: SimpleQueue[_Job | None]) -> None:
    while (job := queue.get()) is not None:
        job.work()
