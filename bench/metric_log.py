"""What logging metrics costs: a training loop, several writers of one run, a search of live runs.

``python -m bench.metric_log`` prints the table of the decision record on the metric log.
"""

from __future__ import annotations

import multiprocessing
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from mlflow.entities import Metric, Param, RunStatus, ViewType
from rich.console import Console
from rich.table import Table as Grid

from bench.contract import TMPFS
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import Meter, MeteredEngine
from mlflow_dynamodbstore.tracking import sealing
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.engines import dynoxide_server, find_dynoxide

CALLS = 1_000
WRITERS = 8
SECONDS = 4.0
HOME = "0"


class Row(NamedTuple):
    """A line of the table."""

    work: str
    before: str
    now: str


def metrics(step: int, count: int) -> list[Metric]:
    """A step of a training loop."""
    at = 1_700_000_000_000 + step * 137
    return [Metric(f"metric_{n}", random.random(), at, step) for n in range(count)]


def new_run(store: Any) -> str:
    return str(store.create_run(HOME, "u", 1, [], "n").info.run_id)


# --- requests and units -------------------------------------------------------------------------


class Metered(NamedTuple):
    """A store on an endpoint that says what its requests cost."""

    store: DynamoDBTrackingStore
    meter: Meter

    def spent(self) -> tuple[int, float]:
        return sum(self.meter.requests.values()), self.meter.write_units


@contextmanager
def on_dynoxide() -> Iterator[Metered]:
    """An empty table with AWS's rules."""
    with dynoxide_server() as host:
        uri = f"dynamodb://{host}/bench"
        engine = MeteredEngine(open_engine(uri))
        yield Metered(DynamoDBTrackingStore(uri, "/tmp", table=Table(engine)), engine.meter)


def loop_units(count: int) -> tuple[float, float, int]:
    """Requests and write units of a call in a loop with its end, and the bytes of the run then."""
    with on_dynoxide() as metered:
        store = metered.store
        run_id = new_run(store)
        store.log_batch(run_id, [], [Param("p", "1")], [])
        before = stored_bytes(store)
        metered.meter.reset()
        for step in range(CALLS):
            store.log_batch(run_id, metrics(step, count), [], [])
        store.update_run_info(run_id, RunStatus.FINISHED, 9, None)
        requests, units = metered.spent()
        assert len(store.get_metric_history(run_id, "metric_0")) == CALLS
        return requests / CALLS, units / CALLS, stored_bytes(store) - before


def stored_bytes(store: DynamoDBTrackingStore) -> int:
    """The bytes of an experiment's partition, without its indexes."""
    query = Query(experiment_keys.experiment_pk(HOME))
    return sum(item_size(item) for item in store.table.items(query) if "settled" not in item)


def search_requests() -> int:
    """Requests of a search over a hundred runs, half of them live."""
    with on_dynoxide() as metered:
        store = metered.store
        for n in range(100):
            run_id = new_run(store)
            store.log_batch(run_id, metrics(1, 10), [Param("p", str(n))], [])
            if n % 2:
                store.update_run_info(run_id, RunStatus.FINISHED, 9, None)
        now = time.time
        store.table.clock = lambda: now() + sealing.REST_BEFORE_SEALING + 1
        store.search_runs([HOME], "", ViewType.ALL, 100)
        metered.meter.reset()
        assert len(store.search_runs([HOME], "", ViewType.ALL, 100)) == 100
        return metered.spent()[0]


# --- time ---------------------------------------------------------------------------------------


def ours(folder: Path) -> Any:
    return DynamoDBTrackingStore(f"dynamodb:///{folder}/ours.ddb", "/tmp")


def theirs(folder: Path) -> Any:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore  # noqa: PLC0415 - slow

    return SqlAlchemyStore(f"sqlite:///{folder}/theirs.db", "/tmp")


Opener = Callable[[Path], Any]


def loop_rate(open_store: Opener, folder: Path) -> float:
    """Calls of ten metrics in a second, in one loop."""
    store = open_store(folder)
    return _rate(store, new_run(store), first=0)


def _rate(store: Any, run_id: str, first: int) -> float:
    seconds, calls = 0.0, 0
    while seconds < SECONDS:
        batches = [metrics(first + calls + n, 10) for n in range(100)]
        begun = time.perf_counter()
        for batch in batches:
            store.log_batch(run_id, batch, [], [])
        seconds += time.perf_counter() - begun
        calls += len(batches)
    return calls / seconds


def process_rate(open_store: Opener, folder: Path) -> float:
    """Calls in a second of processes that log to one run; none may be lost or doubled."""
    store = open_store(folder)
    run_id = new_run(store)
    with multiprocessing.get_context("spawn").Pool(WRITERS) as pool:
        pool.starmap(_logged, [(open_store, folder, run_id, n, 0.2) for n in range(WRITERS)])
        done = pool.starmap(
            _logged, [(open_store, folder, run_id, n, SECONDS) for n in range(WRITERS)]
        )
    steps = [m.step for m in store.get_metric_history(run_id, "metric_0")]
    assert len(steps) == len(set(steps))
    assert {step for _, some in done for step in some} <= set(steps)
    return sum(rate for rate, _ in done)


def _logged(
    open_store: Opener, folder: Path, run_id: str, number: int, seconds: float
) -> tuple[float, list[int]]:
    store = open_store(folder)
    first = random.randrange(10**9) * 100 + number
    steps = []
    begun = time.perf_counter()
    while time.perf_counter() - begun < seconds:
        steps.append(first + len(steps) * WRITERS)
        store.log_batch(run_id, metrics(steps[-1], 10), [], [])
    return len(steps) / (time.perf_counter() - begun), steps


def thread_rate(folder: Path, *, runs: int) -> float:
    """Calls in a second of threads of one process, with points out of order."""
    store = ours(folder)
    run_ids = [new_run(store) for _ in range(runs)]
    with ThreadPoolExecutor(WRITERS) as pool:
        rates: Sequence[float] = list(
            pool.map(
                lambda n: _rate(store, run_ids[n % runs], first=n * 10**6 * (-1) ** n),
                range(WRITERS),
            )
        )
    return sum(rates)


def rows() -> Iterator[Row]:
    """The table, line by line."""
    if find_dynoxide() is not None:
        for count, before in ((10, "12 requests, 20 units"), (1, "3 requests, 2 units")):
            requests, units, size = loop_units(count)
            work = f"{count} metrics a call, {CALLS:,} calls and the end, a call"
            yield Row(work, before, f"{requests:.2f} requests, {units:.2f} units")
            if count == 10:
                yield Row("bytes of that run", "1,250,000", f"{size:,}")
        yield Row("search of 100 runs, 50 live", "105 requests", f"{search_requests()} requests")
    with tempfile.TemporaryDirectory(dir=TMPFS if TMPFS.is_dir() else None) as memory:
        folders = [Path(memory) / str(n) for n in range(6)]
        for folder in folders:
            folder.mkdir()
        sqlite, embedded = loop_rate(theirs, folders[0]), loop_rate(ours, folders[1])
        yield Row(
            "10 metrics a call in a loop, on a file",
            "11 to 13 times SQLite",
            f"{embedded / sqlite:.0f} times SQLite ({embedded:,.0f} calls a second)",
        )
        one = thread_rate(folders[2], runs=1)
        many = thread_rate(folders[3], runs=WRITERS)
        yield Row(
            f"{WRITERS} threads on one run, against separate runs",
            "0.33",
            f"{one / many:.2f} ({one:,.0f} calls a second)",
        )
        sqlite, embedded = process_rate(theirs, folders[4]), process_rate(ours, folders[5])
        yield Row(
            f"{WRITERS} processes on one run, on a file",
            "1,400 calls a second (SQLite 150)",
            f"{embedded:,.0f} calls a second (SQLite {sqlite:,.0f})",
        )


def main() -> None:
    """Measure and print."""
    grid = Grid("work", "before the log", "with the log", title="The metric log")
    for row in rows():
        grid.add_row(*row)
        Console(width=140).print(row)
    Console(width=140).print(grid)


if __name__ == "__main__":
    main()
