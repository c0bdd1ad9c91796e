"""What this process has done, counted by operation: in total, and over the last day.

An operation is the store's method that MLflow has called (``log_batch``, ``search_runs``); what a
call sends to the table counts for it, in the threads too that read for it. Everybody adds to the
one :data:`COUNTERS`; ``/metrics`` and whoever shows them reads :meth:`Counters.totals` and
:meth:`Counters.periods`, of one process or, through
:mod:`mlflow_dynamodbstore.shared.counter_files`, of all workers of a server.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from threading import Lock
from typing import NamedTuple

PERIOD_SECONDS = 300
PERIODS_KEPT = 288  # a day
LIVE_SECONDS = 300.0
MOST_RUNS = 10_000
SLOW_SECONDS = 1.0

CALLS = "calls"
ERRORS = "errors"
SECONDS = "seconds"
SLOW = "slow_calls"
REQUESTS = "requests"
READ_UNITS = "read_units"
WRITE_UNITS = "write_units"
RETRIES = "retries"
THROTTLES = "throttles"
HITS = "cache_hits"
MISSES = "cache_misses"

MEANINGS: Mapping[str, str] = {
    CALLS: "Calls of a store's method.",
    ERRORS: "Calls that ended in an error, those that a client is to blame for included.",
    SECONDS: "Seconds spent in calls.",
    SLOW: f"Calls that took {SLOW_SECONDS:g} second or more.",
    REQUESTS: "Requests to the table, repeated ones included, by DynamoDB's names.",
    READ_UNITS: "Read units that DynamoDB reported; a file has none.",
    WRITE_UNITS: "Write units that DynamoDB reported; a file has none.",
    RETRIES: "Requests that were repeated.",
    THROTTLES: "Answers that asked for fewer requests.",
    HITS: "Reads that a cache answered.",
    MISSES: "Reads that a cache could not answer.",
}
"""Every counter, and what it counts."""


class Counted(NamedTuple):
    """What a number counts; ``request`` is empty but for :data:`REQUESTS`."""

    counter: str
    operation: str
    request: str = ""


Counts = dict[Counted, float]
_Sums = dict[tuple[str, str, str], float]  # made several times a call: a tuple takes half the time


class Period(NamedTuple):
    """What was counted in some seconds that began at ``start``, in seconds since 1970."""

    start: float
    seconds: float
    counts: Counts


NO_OPERATION = "none"
OPERATION: ContextVar[str] = ContextVar("operation", default=NO_OPERATION)
"""The store's method that is being called; ``none`` outside of calls."""


class Counters:
    """Numbers that any thread may add to."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.reset()

    def reset(self) -> None:
        """Begin again, as the child of a fork does."""
        self._lock = Lock()  # another thread of the parent may hold the old one
        self._now: _Sums = {}  # of the current period
        self._before: _Sums = {}  # of all earlier ones
        self._periods: deque[Period] = deque(maxlen=PERIODS_KEPT)
        self._runs: dict[str, float] = {}
        self._began = self._clock()
        self._ends = _end_of_period(self._began)

    def add(
        self, counter: str, amount: float = 1, *, operation: str | None = None, request: str = ""
    ) -> None:
        """Count something for an operation, by default for the one that is being called."""
        key = (counter, OPERATION.get() if operation is None else operation, request)
        with self._lock:
            if self._clock() >= self._ends:
                self._end_period()
            now = self._now
            now[key] = now.get(key, 0) + amount

    def call(self, operation: str) -> Call:
        """Count a call, in a ``with``; one inside another counts as a part of it."""
        return Call(self, operation)

    def count_call(self, operation: str, seconds: float, *, failed: bool) -> None:
        """Count a call that has ended."""
        calls, spent = (CALLS, operation, ""), (SECONDS, operation, "")
        with self._lock:
            if self._clock() >= self._ends:
                self._end_period()
            now = self._now
            now[calls] = now.get(calls, 0) + 1
            now[spent] = now.get(spent, 0) + seconds
        if failed:
            self.add(ERRORS, operation=operation)
        if seconds >= SLOW_SECONDS:
            self.add(SLOW, operation=operation)

    def run_written(self, run_id: str) -> None:
        """Note that a run is live."""
        with self._lock:
            self._runs.pop(run_id, None)  # the one written last stands last
            self._runs[run_id] = self._clock()
            if len(self._runs) > MOST_RUNS:
                self._runs.pop(next(iter(self._runs)))

    def run_ended(self, run_id: str) -> None:
        """Note that a run is no longer live."""
        with self._lock:
            self._runs.pop(run_id, None)

    def live_runs(self) -> list[str]:
        """The runs that this process wrote to in the last minutes and that it has not ended."""
        since = self._clock() - LIVE_SECONDS
        with self._lock:
            return [run_id for run_id, at in self._runs.items() if at >= since]

    def totals(self) -> Counts:
        """Everything since the start."""
        with self._lock:
            return _named(_sum(self._before, self._now))

    def periods(self, hours: float = 24.0) -> list[Period]:
        """The last hours in periods of five minutes, oldest first; the last one goes on."""
        now = self._clock()
        with self._lock:
            if now >= self._ends:
                self._end_period()
            current = Period(self._began, max(0.0, now - self._began), _named(self._now))
            since = now - 3600 * hours
            return [one for one in (*self._periods, current) if one.start + one.seconds >= since]

    def _end_period(self) -> None:
        self._periods.append(Period(self._began, self._ends - self._began, _named(self._now)))
        self._before = _sum(self._before, self._now)
        self._now = {}
        end = _end_of_period(self._clock())
        # Periods in which nothing happened count, too: without them a rate would be too high.
        start = max(self._ends, end - (PERIODS_KEPT + 1) * PERIOD_SECONDS)
        while start + PERIOD_SECONDS < end:
            self._periods.append(Period(start, PERIOD_SECONDS, {}))
            start += PERIOD_SECONDS
        self._ends = end
        self._began = end - PERIOD_SECONDS


class Call:
    """Counts what happens inside its ``with`` for an operation, unless it is inside another."""

    __slots__ = ("_began", "_counters", "_operation", "_token")

    def __init__(self, counters: Counters, operation: str) -> None:
        self._counters = counters
        self._operation = operation
        self._token: Token[str] | None = None

    def __enter__(self) -> None:
        if OPERATION.get() == NO_OPERATION:
            self._token = OPERATION.set(self._operation)
            self._began = time.perf_counter()

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if self._token is not None:
            OPERATION.reset(self._token)
            took = time.perf_counter() - self._began
            self._counters.count_call(self._operation, took, failed=error is not None)


def _end_of_period(now: float) -> float:
    return (now // PERIOD_SECONDS + 1) * PERIOD_SECONDS


def _named(sums: _Sums) -> Counts:
    return {Counted(*key): amount for key, amount in sums.items()}


def _sum(some: _Sums, others: _Sums) -> _Sums:
    found = dict(some)
    for key, amount in others.items():
        found[key] = found.get(key, 0) + amount
    return found


COUNTERS = Counters()
"""The counters of this process."""
os.register_at_fork(after_in_child=COUNTERS.reset)
