"""The threads of this process that send requests in parallel.

All tables of a process share one pool, so the number of threads does not grow with the number of
tables. ``MLFLOW_DYNAMODBSTORE_PARALLEL_REQUESTS`` sets its size.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from queue import SimpleQueue
from typing import Protocol, TypeAlias

from mlflow_dynamodbstore.table.errors import InvalidRequest

PARALLEL_REQUESTS = 32
SIZE_VARIABLE = "MLFLOW_DYNAMODBSTORE_PARALLEL_REQUESTS"

Task: TypeAlias = Callable[[], None]


class TaskRunner(Protocol):
    """Does several tasks, in parallel or not."""

    def run(self, tasks: Sequence[Task]) -> None:
        """Do all tasks and return when the last is done.

        The first error of a task keeps the others from starting, and is raised here.
        """


class Workers:
    """Runs up to ``size`` tasks of a caller at once; the caller's thread is one of the workers.

    Since the caller works too, a single task needs no thread, a caller makes progress while all
    threads are busy, and tasks that call :meth:`run` cannot wait for each other for ever. A thread
    starts when none is free and there are fewer than ``size - 1``. Threads are daemons.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._reset()

    def run(self, tasks: Sequence[Task]) -> None:
        """Do all tasks, as :class:`TaskRunner` says."""
        job = _Job(tasks)
        helpers = min(self._size, len(tasks)) - 1
        if helpers > 0:
            self._call(helpers, job)
        job.work()
        job.wait()

    def close(self) -> None:
        """End the threads; a later call starts new ones."""
        with self._lock:
            threads, queue = self._threads, self._queue
            self._reset()
        for _ in range(threads):
            queue.put(None)

    def _call(self, helpers: int, job: _Job) -> None:
        """Ask so many threads to work on a job, starting those that are missing."""
        with self._lock:
            self._free -= helpers
            while self._free < 0 and self._threads < self._size - 1:
                self._threads += 1
                self._free += 1
                name = f"dynamodb-{self._threads}"
                target, queue = self._serve, self._queue
                threading.Thread(target=target, args=(queue,), name=name, daemon=True).start()
            for _ in range(helpers):
                self._queue.put(job)

    def _serve(self, queue: SimpleQueue[_Job | None]) -> None:
        while (job := queue.get()) is not None:
            job.work()
            del job  # a waiting thread holds on to nothing
            with self._lock:
                if queue is self._queue:
                    self._free += 1

    def _reset(self) -> None:
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = 0
        self._free = 0  # threads that wait; below 0: jobs that wait


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


# --- the pool of this process -------------------------------------------------------------------


class _Process:
    """The pool that all tables of this process share, made on first use."""

    def __init__(self) -> None:
        self.forget()
        if sys.platform != "win32":  # threads and held locks do not survive a fork
            os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        self.lock = threading.Lock()
        self.workers: TaskRunner | None = None


_process = _Process()


def process_workers() -> TaskRunner:
    """The pool of this process. Raises as :func:`parallel_requests` does."""
    workers = _process.workers
    if workers is None:
        with _process.lock:
            workers = _process.workers = _process.workers or Workers(parallel_requests())
    return workers


@contextmanager
def replaced_workers(workers: TaskRunner) -> Iterator[None]:
    """Let all tables of this process use another pool for a while, for tests and benchmarks."""
    before, _process.workers = _process.workers, workers
    try:
        yield
    finally:
        _process.workers = before


def parallel_requests() -> int:
    """How many requests one call sends at once. Raises ``InvalidRequest`` for a bad setting."""
    text = os.environ.get(SIZE_VARIABLE, "").strip()
    if not text:
        return PARALLEL_REQUESTS
    if not text.isdecimal() or int(text) < 1:
        raise InvalidRequest(f"{SIZE_VARIABLE} is a number of threads from 1 up, not {text!r}")
    return int(text)
