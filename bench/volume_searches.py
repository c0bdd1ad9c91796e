"""What a page of a search takes from one volume, and from eight.

``python -m bench.volume_searches`` prints the table of the decision record on volumes: the requests
of a page, how many of them follow one another, and the read units, on dynoxide. The last rows are
of the same experiment with half of its newest hundred runs live.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import click
from mlflow.entities import Metric, Param, RunStatus, RunTag, ViewType
from mlflow.entities.trace_info import TraceInfo
from mlflow.entities.trace_location import TraceLocation
from mlflow.entities.trace_state import TraceState
from rich.console import Console
from rich.progress import track
from rich.table import Table as Grid

from mlflow_dynamodbstore.shared.volumes import ANNOUNCED_SECONDS
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.tracking.sealing import REST_BEFORE_SEALING
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.chains import Chain, counted_chain
from tests.engines import dynoxide_server

RUNS, TRACES, LIVE = 800, 400, 50
ONE, EIGHT = "1", "2"
WIDTH = 8

Search = Callable[[DynamoDBTrackingStore, str], int]


@dataclass(frozen=True)
class Measured:
    """What a search takes."""

    found: int
    chain: Chain
    read_units: float


class Clock:
    """The time of this machine, which can be moved."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def runs(size: int, where: str = "", *order: str) -> Search:
    return lambda store, experiment_id: len(
        store.search_runs([experiment_id], where, ViewType.ACTIVE_ONLY, size, list(order))
    )


def traces(size: int, where: str | None = None, *order: str) -> Search:
    return lambda store, experiment_id: len(
        store.search_traces(None, where, size, list(order), locations=[experiment_id])[0]
    )


ONE_RANGE = {
    "100 runs by start time": runs(100),
    "100 runs by name": runs(100, "", "attributes.run_name ASC"),
    "runs of one name": runs(100, "attributes.run_name = 'name 7'"),
    "runs of one status": runs(100, "attributes.status = 'FAILED'"),
    "runs with a rare tag": runs(100, "tags.few = 'v3'"),
    "100 runs with a common tag": runs(100, "tags.half = 'v1'"),
    "100 runs by end": runs(100, "", "attributes.end_time DESC"),
    "100 traces by time": traces(100),
    "traces with a rare tag": traces(100, "tag.few = 'v3'"),
    "100 traces with a common tag": traces(100, "tag.half = 'v1'"),
    "traces of one name": traces(100, "trace.name = 'name 3'"),
    "100 traces by name": traces(100, None, "tags.`mlflow.traceName` ASC"),
}
"""Searches that read one range of each volume."""
TWO_RANGES = {
    "the best 50 by a metric": runs(50, "", "metrics.m DESC"),
    "runs with a metric above a value": runs(100, "metrics.m > 0.95"),
    "a param and a tag": runs(100, "params.p = 'value 3' and tags.few = 'v3'"),
}
"""Searches that read two: the live runs, and what is derived from sealed ones."""
WITH_LIVE_RUNS = {
    "100 runs by start time": runs(100),
    "the best 50 by a metric": runs(50, "", "metrics.m DESC"),
}


class Experiments:
    """The same runs and traces in an experiment of one volume, and in one of eight."""

    def __init__(self, uri: str) -> None:
        self._clock = Clock()
        self._engine = MeteredEngine(open_engine(uri))
        table = Table(self._engine, clock=self._clock)
        self.store = DynamoDBTrackingStore(uri, "/a", table=table)
        for experiment_id in (ONE, EIGHT):
            assert self.store.create_experiment(f"of {experiment_id}") == experiment_id
        self.store.experiment_lookup.volumes.spread(EIGHT, WIDTH)
        self.store.experiment_lookup.get(EIGHT)
        self._clock.ahead += ANNOUNCED_SECONDS + 1

    def fill(self, runs: int, traces: int) -> None:
        """So many ended runs, and traces, in each of both."""
        for n in track(range(runs), "runs and traces", transient=True):
            for experiment_id in (ONE, EIGHT):
                self.add_run(experiment_id, n)
                if n < traces:
                    self._add_trace(experiment_id, n)

    def add_run(self, experiment_id: str, n: int) -> None:
        """One more run that has ended."""
        self._end(self._begin(experiment_id, n), n)

    def add_live_runs(self) -> None:
        """More runs, every other one of which stays live, as readers find them after a while."""
        for n in range(RUNS, RUNS + 2 * LIVE):
            for experiment_id in (ONE, EIGHT):
                if n % 2:
                    self.add_run(experiment_id, n)
                else:
                    self._begin(experiment_id, n)
        for _ in range(3):
            self._clock.ahead += REST_BEFORE_SEALING + 1
            for experiment_id in (ONE, EIGHT):
                runs(1000)(self.store, experiment_id)

    def measured(self, search: Search, experiment_id: str) -> Measured:
        """What a search takes of a process that has made it before."""
        search(self.store, experiment_id)
        self._engine.meter.reset()
        with counted_chain(self._engine) as chain:
            found = search(self.store, experiment_id)
        return Measured(found, chain, self._engine.meter.total().read_units)

    def _begin(self, experiment_id: str, n: int) -> str:
        tags = [RunTag("few", f"v{n % 40}"), RunTag("half", f"v{n % 2}")]
        run = self.store.create_run(experiment_id, "u", n, tags, f"name {n % 60}")
        metrics = [Metric("m", random.Random(n).random(), 1, 1)]
        self.store.log_batch(run.info.run_id, metrics, [Param("p", f"value {n % 40}")], [])
        return str(run.info.run_id)

    def _end(self, run_id: str, n: int) -> None:
        status = RunStatus.FAILED if n % 20 == 0 else RunStatus.FINISHED
        self.store.update_run_info(run_id, status, n + 1, None)

    def _add_trace(self, experiment_id: str, n: int) -> None:
        name = {"mlflow.traceName": f"name {n % 25}"}
        self.store.start_trace(
            TraceInfo(
                f"tr-{experiment_id}{n:031x}",
                TraceLocation.from_experiment_id(experiment_id),
                1_000 + n,
                TraceState.OK,
                execution_duration=5,
                tags={"few": f"v{n % 40}", "half": f"v{n % 2}", **name},
            )
        )


@click.command()
def main() -> None:
    """Measure each search in one volume and in eight."""
    grid = Grid("search", "requests, one volume", "eight", "chain, one", "eight", "units", "eight")

    def add(name: str, search: Search) -> None:
        one, eight = (made.measured(search, experiment_id) for experiment_id in (ONE, EIGHT))
        assert one.found == eight.found > 0, name
        requests = [str(len(each.chain.requests)) for each in (one, eight)]
        chains = [str(each.chain.length) for each in (one, eight)]
        units = [f"{each.read_units:g}" for each in (one, eight)]
        grid.add_row(name, *requests, *chains, *units)

    with dynoxide_server() as host:
        made = Experiments(f"dynamodb://{host}/volumes")
        made.fill(RUNS, TRACES)
        for name, search in {**ONE_RANGE, **TWO_RANGES}.items():
            add(name, search)
        made.add_live_runs()
        for name, search in WITH_LIVE_RUNS.items():
            add(f"{name}, some of them live", search)
    Console(width=140).print(grid)


if __name__ == "__main__":
    main()
