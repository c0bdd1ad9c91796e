"""What tracking operations take and cost: MLflow's SQL store and ours, side by side.

Each workload runs on a store of its own; times are medians over repetitions, taken in turns so
that a busy moment hits all stores alike. What a call is given is made before the clock starts, and
before each turn Python's garbage is collected: what one store leaves is not cleared up in the time
of another. On DynamoDB (dynoxide) requests and units are those the server reports. The same table
is measured once more with a delay of each request, as if it were on AWS.
"""

from __future__ import annotations

import gc
import itertools
import random
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mlflow.entities import Metric, Param, RunStatus, RunTag, ViewType

from bench.populations import Filler, by_calls, populated
from tests.chains import counted_chain

TAGS = [RunTag(f"tag{n}", f"value {n} of this tag") for n in range(10)]
PARAMS = [Param(f"param{n}", f"value {n}") for n in range(20)]
TURNS = 8
FAR_CALLS = 10
_numbers = itertools.count(1)


@dataclass
class Cost:
    """One operation on one store."""

    milliseconds: float
    requests: float = 0.0
    read_units: float = 0.0
    write_units: float = 0.0
    chain: int = 0  # the longest chain of requests
    far_milliseconds: float = 0.0  # with a delay of each request
    steps: str = ""  # the requests of each step of the chain


@dataclass
class Bench:
    """A store that workloads run on, with what they need from one call to the next."""

    name: str
    store: Any
    meter: Any = None
    registry: Any = None
    engine: Any = None
    far: Bench | None = None  # the same table, far away
    fill: Filler = by_calls
    state: dict[str, Any] = field(default_factory=dict)

    def run(self) -> str:
        """A run with ten tags."""
        created = self.store.create_run(self.experiment, "user", next(_numbers), TAGS, "a run")
        run_id: str = created.info.run_id
        return run_id

    @property
    def experiment(self) -> str:
        if "experiment" not in self.state:
            self.state["experiment"] = self.store.create_experiment(f"bench {next(_numbers)}")
        place: str = self.state["experiment"]
        return place

    def logged(self) -> str:
        run_id = self.run()
        self.store.log_batch(run_id, metrics(), PARAMS, [])
        return run_id

    def finished(self) -> str:
        run_id = self.logged()
        self.store.update_run_info(run_id, RunStatus.FINISHED, next(_numbers), None)
        return run_id


def metrics(step: int = 0) -> list[Metric]:
    at = next(_numbers)
    return [Metric(f"metric{n}", random.random(), at, step) for n in range(10)]


Workload = Callable[[Bench, Any], Any]


@dataclass(frozen=True)
class Operation:
    """What is measured: ``do`` with what ``given`` prepared before the clock starts."""

    title: str
    given: Callable[[Bench], Any]
    do: Workload
    repeat: int = 80


Logged = tuple[str, list[Metric]]
"""A run, and what is to be logged to it."""


def _new_run(bench: Bench) -> Logged:
    return bench.run(), metrics()


def _long_loop(bench: Bench) -> Logged:
    """The next step of a run that goes on from call to call."""
    if "loop" not in bench.state:
        run_id = bench.run()
        bench.store.log_batch(run_id, metrics(), [], [])
        bench.state["loop"] = (run_id, itertools.count(1))
    run_id, steps = bench.state["loop"]
    return run_id, metrics(next(steps))


def _history(count: int) -> Callable[[Bench], str]:
    def given(bench: Bench) -> str:
        name = f"history {count}"
        if name not in bench.state:
            run_id = bench.run()
            for first in range(0, count, 1000):
                points = [Metric("m", n / 7, 1000 + n, n) for n in range(first, first + 1000)]
                bench.store.log_batch(run_id, points, [], [])
            bench.state[name] = run_id
        run: str = bench.state[name]
        return run

    return given


def _log_params(bench: Bench, logged: Logged) -> None:
    run_id, points = logged
    bench.store.log_batch(run_id, points, PARAMS, [])


def _log_step(bench: Bench, logged: Logged) -> None:
    run_id, points = logged
    bench.store.log_batch(run_id, points, [], [])


def _log_one(bench: Bench, logged: Logged) -> None:
    run_id, points = logged
    bench.store.log_metric(run_id, points[0])


def _delete_and_restore(bench: Bench, run_id: str) -> None:
    bench.store.delete_run(run_id)
    bench.store.restore_run(run_id)


OPERATIONS = (
    Operation("create_run, 10 tags", lambda b: b.experiment, lambda b, _: b.run()),
    Operation("log_batch, 20 params + 10 metrics", _new_run, _log_params),
    Operation(
        "end of run",
        lambda b: b.logged(),
        lambda b, run: b.store.update_run_info(run, RunStatus.FINISHED, 9, None),
    ),
    Operation("log_batch, 10 metrics, in a long loop", _long_loop, _log_step, repeat=1000),
    Operation("log_metric", _long_loop, _log_one, repeat=400),
    Operation("get_run (finished)", lambda b: b.finished(), lambda b, run: b.store.get_run(run)),
    Operation(
        "get_metric_history, 1,000 points",
        _history(1_000),
        lambda b, run: b.store.get_metric_history(run, "m"),
        repeat=10,
    ),
    Operation(
        "get_metric_history, 10,000 points",
        _history(10_000),
        lambda b, run: b.store.get_metric_history(run, "m"),
        repeat=5,
    ),
    Operation("delete_run + restore_run", lambda b: b.finished(), _delete_and_restore),
)


def search_operations(count: int) -> tuple[Operation, ...]:
    """Searches over an experiment with this many finished runs."""

    def given(bench: Bench) -> str:
        return populated(bench, count)

    def search(*arguments: Any) -> Workload:
        def do(bench: Bench, place: str) -> Any:
            filter_string, size, order_by = arguments
            return bench.store.search_runs(
                [place], filter_string, ViewType.ACTIVE_ONLY, size, order_by
            )

        return do

    def walk(bench: Bench, place: str) -> None:
        token = None
        while True:
            page = bench.store.search_runs([place], "", ViewType.ACTIVE_ONLY, 1000, None, token)
            token = page.token
            if not token:
                return

    of = f"of {count:,}"
    return (
        Operation(f"search_runs, default order, 100 {of}", given, search("", 100, None), 5),
        Operation(
            f"search_runs, top 50 by a metric, {of}",
            given,
            search("metrics.metric1 > 0.9", 50, ["metrics.metric1 DESC"]),
            5,
        ),
        Operation(
            f"search_runs, param = and tag LIKE, {of}",
            given,
            search("params.p3 = 'x1' AND tags.t1 LIKE '%foo%'", 100, None),
            5,
        ),
        Operation(f"all {count:,} runs in pages of 1,000", given, walk, 2),
    )


def measure(benches: list[Bench], operation: Operation) -> Mapping[str, Cost]:
    """The median time of one operation on each store, and its cost where counted.

    The stores take turns of several calls: a busy moment of the machine hits them all alike, and
    what one store leaves in the caches does not fall on the first call of another only.
    """
    seconds: dict[str, list[float]] = {bench.name: [] for bench in benches}
    usage: dict[str, list[Any]] = {bench.name: [] for bench in benches}
    for bench in benches:
        operation.do(bench, operation.given(bench))  # warm
    turn = max(1, operation.repeat // TURNS)
    for _ in range(0, operation.repeat, turn):
        for bench in benches:
            prepared_calls = [operation.given(bench) for _ in range(turn)]
            gc.collect(1)  # all of it would take minutes in sum
            for prepared in prepared_calls:
                if bench.meter is not None:
                    bench.meter.reset()
                began = time.perf_counter()
                operation.do(bench, prepared)
                seconds[bench.name].append(time.perf_counter() - began)
                if bench.meter is not None:
                    usage[bench.name].append(bench.meter.total())
    found = {bench.name: _cost(seconds[bench.name], usage[bench.name]) for bench in benches}
    for bench in benches:
        if bench.far is not None:
            add_distance(found[bench.name], bench, bench.far, operation)
    return found


def add_distance(cost: Cost, near: Bench, far: Bench, operation: Operation) -> None:
    """Count the longest chain of requests near the table, and time some calls far from it."""
    prepared = operation.given(near)
    with counted_chain(near.engine) as chain:
        operation.do(near, prepared)
    operation.do(far, operation.given(near))  # warm
    seconds = []
    for prepared in [operation.given(near) for _ in range(min(FAR_CALLS, operation.repeat))]:
        began = time.perf_counter()
        operation.do(far, prepared)
        seconds.append(time.perf_counter() - began)
    cost.chain, cost.requests = chain.length, cost.requests or len(chain.requests)
    cost.far_milliseconds = statistics.median(seconds) * 1000
    cost.steps = chain.steps()


def _cost(seconds: list[float], usage: list[Any]) -> Cost:
    cost = Cost(statistics.median(seconds) * 1000)
    if usage:
        cost.requests = statistics.median(sum(u.requests.values()) for u in usage)
        cost.read_units = statistics.median(u.read_units for u in usage)
        cost.write_units = statistics.median(u.write_units for u in usage)
    return cost
