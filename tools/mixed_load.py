"""Use a table as many clients do for a long time, and check that nothing grows that should not.

Threads begin and end runs, log metrics, params and tags, search, store and search traces, and
register models, all on one file. Once a second the memory and the open descriptors of this process
and the size of the write-ahead log are noted. At the end the last third of the time is compared
with the third before: what has grown is printed, and ends the program with code 1.

    python tools/mixed_load.py --minutes 60

With ``--rate 50`` at most 50 things are done in a second, so that the machine stays usable.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from mlflow.entities import Metric, Param, RunStatus, RunTag, TraceInfo, ViewType
from mlflow.entities.trace_location import TraceLocation
from mlflow.entities.trace_state import TraceState
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore

THREADS = 4
MB = 1 << 20
MOST_WAL = 64 * MB
"""SQLite copies the log into the file from 4 MB on, as soon as no reader holds it back."""
MOST_GROWTH = 1.1
"""How much the memory of the last third may exceed that of the third before."""
SLACK = 24 * MB
FEW_DESCRIPTORS = 4


class Sample(NamedTuple):
    """What the process holds at one moment."""

    seconds: float
    memory: int
    descriptors: int
    log: int
    calls: int


class Load:
    """Clients of one table."""

    def __init__(self, path: Path, rate: float | None = None):
        self.pause = THREADS / rate if rate else 0.0
        uri = f"dynamodb:///{path}?synchronous=NORMAL"
        self.table = Table(open_engine(uri))
        self.tracking = DynamoDBTrackingStore(uri, "s3://bucket/root", table=self.table)
        self.registry = DynamoDBRegistryStore(uri, uri, table=self.table)
        self.experiments = [self.tracking.create_experiment(f"load {n}") for n in range(THREADS)]
        self.stop = threading.Event()
        self.calls = 0
        self.errors: list[str] = []
        self._counting = threading.Lock()

    def client(self, number: int) -> None:
        """Call one thing after another until told to stop."""
        rng = random.Random(number)  # nothing depends on it
        things: Sequence[Callable[[random.Random], None]] = (
            *(self._run, self._run, self._search, self._trace),
            *(self._search_traces, self._model, self._refused),
        )
        while not self.stop.is_set():
            try:
                rng.choice(things)(rng)
            except Exception as error:  # noqa: BLE001  # it is reported, and ends the program
                self.errors.append(repr(error))
                self.stop.set()
            with self._counting:
                self.calls += 1
            self.stop.wait(self.pause)

    def _run(self, rng: random.Random) -> None:
        now = int(time.time() * 1000)
        run = self.tracking.create_run(rng.choice(self.experiments), "ada", now, [], "run")
        run_id = run.info.run_id
        for step in range(rng.randrange(1, 30)):
            self.tracking.log_metric(run_id, Metric("loss", rng.random(), now + step, step))
        points = [Metric(f"m{n}", rng.random(), now, n) for n in range(50)]
        params = [Param(f"p{n}", "v" * rng.randrange(200)) for n in range(10)]
        self.tracking.log_batch(run_id, points, params, [RunTag("team", "blue")])
        self.tracking.update_run_info(run_id, RunStatus.FINISHED, now + 1, None)
        self.tracking.get_metric_history(run_id, "loss")

    def _search(self, rng: random.Random) -> None:
        wanted = f"metrics.loss < {rng.random()} AND params.p1 != 'x'"
        experiments = [rng.choice(self.experiments)]
        self.tracking.search_runs(experiments, wanted, ViewType.ALL, 20)  # type: ignore[no-untyped-call]
        self.tracking.search_experiments(max_results=10)

    def _trace(self, rng: random.Random) -> None:
        experiment = rng.choice(self.experiments)
        info = TraceInfo(
            trace_id=f"tr-{rng.getrandbits(128):032x}",
            trace_location=TraceLocation.from_experiment_id(experiment),
            request_time=int(time.time() * 1000),
            execution_duration=rng.randrange(1000),
            state=TraceState.OK,
            tags={"k": "v" * rng.randrange(5000)},
        )
        self.tracking.start_trace(info)
        self.tracking.get_trace_info(info.trace_id)

    def _search_traces(self, rng: random.Random) -> None:
        self.tracking.search_traces([rng.choice(self.experiments)], max_results=20)

    def _model(self, rng: random.Random) -> None:
        name = f"model-{rng.getrandbits(64):x}"
        self.registry.create_registered_model(name)
        self.registry.create_model_version(name, "s3://bucket/model")
        self.registry.delete_registered_model(name)

    def _refused(self, rng: random.Random) -> None:
        """Bad calls, whose errors must not be kept anywhere."""
        for call in (
            lambda: self.tracking.get_run(f"{rng.getrandbits(128):032x}"),
            lambda: self.tracking.create_experiment("n" * 450_000),
            lambda: self.tracking.search_experiments(filter_string="no filter at all"),
        ):
            try:
                call()
            except MlflowException:
                continue
            raise AssertionError("a bad call was answered")


def sample(load: Load, path: Path, began: float) -> Sample:
    """What the process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    log = path.with_name(f"{path.name}-wal")
    return Sample(
        seconds=time.monotonic() - began,
        memory=pages * os.sysconf("SC_PAGE_SIZE"),
        descriptors=len(list(Path("/proc/self/fd").iterdir())),
        log=log.stat().st_size if log.exists() else 0,
        calls=load.calls,
    )


def complaints(samples: Sequence[Sample]) -> list[str]:
    """What has grown that should not have."""
    third = len(samples) // 3
    before, after = samples[third : 2 * third], samples[2 * third :]
    if not before:
        return ["there were too few samples to compare"]
    found = []
    memory = [statistics.median(one.memory for one in part) for part in (before, after)]
    if memory[1] > memory[0] * MOST_GROWTH + SLACK:
        found.append(f"memory grew from {memory[0] / MB:.0f} to {memory[1] / MB:.0f} MB")
    descriptors = [statistics.median(one.descriptors for one in part) for part in (before, after)]
    if descriptors[1] > descriptors[0] + FEW_DESCRIPTORS:
        found.append(f"descriptors grew from {descriptors[0]:.0f} to {descriptors[1]:.0f}")
    largest = max(one.log for one in after)
    if largest > MOST_WAL:
        found.append(f"the write-ahead log grew to {largest / MB:.0f} MB")
    return found


def run(
    path: Path, seconds: float, interval: float, rate: float | None = None
) -> tuple[list[Sample], list[str]]:
    """Use a new table for some time; returns the samples, and what is wrong."""
    load = Load(path, rate)
    began = time.monotonic()
    threads = [threading.Thread(target=load.client, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    samples = []
    while time.monotonic() - began < seconds and not load.stop.wait(interval):
        samples.append(sample(load, path, began))
    load.stop.set()
    for thread in threads:
        thread.join()
    load.table.close()
    return samples, load.errors + complaints(samples)


def main() -> int:
    """Run as told, print the figures, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between samples")
    parser.add_argument("--rate", type=float, help="the most things to do in a second")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mlflow.ddb")
        samples, wrong = run(path, given.minutes * 60, given.interval, given.rate)
        size = path.stat().st_size
    shown = samples[:: max(1, len(samples) // 12)]
    for one in shown:
        print(json.dumps(one._asdict()))
    print(json.dumps({"calls": samples[-1].calls, "file": size, "wrong": wrong}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
