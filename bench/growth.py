"""Many processes fill one experiment until it has many volumes; then everything must be found.

``python -m bench.growth`` writes 100 MB of runs and traces from 8 processes into an experiment
whose volumes hold 5 MB each. Meanwhile it walks pages of searches. It fails if a call fails, if a
search misses something or shows it twice, or if an order is wrong.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
from mlflow.entities import Metric, Param, RunStatus, RunTag, ViewType
from mlflow.entities.trace_info import TraceInfo
from mlflow.entities.trace_location import TraceLocation
from mlflow.entities.trace_state import TraceState

from bench.contract import TMPFS
from mlflow_dynamodbstore.shared.volumes import Volumes
from mlflow_dynamodbstore.table.contract import Scan
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.upkeep.table_stats import stored_sizes

HOME = "0"
MEGABYTE = 1_000_000
RUN_BYTES, TRACE_BYTES = 21_000, 4_500
"""About what one of those made here takes, with its entries in local indexes."""


def opened(folder: Path, limit: int) -> DynamoDBTrackingStore:
    options = f"synchronous=NORMAL&collection_limit={limit}"
    return DynamoDBTrackingStore(f"dynamodb:///{folder}/growth.ddb?{options}", "/artifacts")


def fill(folder: Path, limit: int, number: int, pairs: int) -> tuple[list[str], list[str]]:
    """Write runs and traces in turn; returns their ids."""
    store = opened(folder, limit)
    runs, traces = [], []
    for n in range(pairs):
        at = int(time.time() * 1000)
        tags = [RunTag("worker", str(number))]
        run_id = store.create_run(HOME, "user", at, tags, f"run {n}").info.run_id
        params = [Param(f"p{k}", os.urandom(200).hex()) for k in range(20)]
        store.log_batch(run_id, [Metric("m", random.random(), at, n)], params, [])
        store.update_run_info(run_id, RunStatus.FINISHED, at + 1, None)
        runs.append(run_id)
        trace_id = f"tr-{number:08x}{n:024x}"
        info = TraceInfo(
            trace_id,
            TraceLocation.from_experiment_id(HOME),
            at,
            TraceState.OK,
            execution_duration=n,
            trace_metadata={"text": os.urandom(900).hex()},
            tags={"worker": str(number)},
        )
        store.start_trace(info)
        traces.append(trace_id)
    return runs, traces


def walk_runs(
    store: DynamoDBTrackingStore, filter_string: str, order_by: list[str]
) -> Iterator[tuple[str, int, float]]:
    """The id, start and metric of every run, page by page."""
    token = None
    while True:
        page = store.search_runs([HOME], filter_string, ViewType.ALL, 200, order_by, token)
        for run in page:
            yield run.info.run_id, run.info.start_time, run.data.metrics.get("m", -1.0)
        token = page.token
        if not token:
            return


def walk_traces(store: DynamoDBTrackingStore, filter_string: str) -> Iterator[tuple[str, int]]:
    token = None
    while True:
        page, token = store.search_traces(
            locations=[HOME], filter_string=filter_string, max_results=200, page_token=token
        )
        yield from ((trace.trace_id, trace.request_time) for trace in page)
        if not token:
            return


def check_order(times: list[int] | list[float]) -> None:
    assert times == sorted(times, reverse=True), "the order is wrong"


@click.command()
@click.option("--megabytes", default=100, show_default=True)
@click.option("--processes", default=8, show_default=True)
@click.option("--limit", default=5, show_default=True, help="Megabytes that a volume holds.")
def main(megabytes: int, processes: int, limit: int) -> None:
    """Fill an experiment, and look for everything in it."""
    pairs = megabytes * MEGABYTE // (RUN_BYTES + TRACE_BYTES) // processes
    with tempfile.TemporaryDirectory(dir=TMPFS if TMPFS.is_dir() else None) as name:
        folder, size = Path(name), limit * MEGABYTE
        store = opened(folder, size)
        begun, walks = time.monotonic(), 0
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            filled = pool.starmap_async(
                fill, [(folder, size, number, pairs) for number in range(processes)]
            )
            while not filled.ready():
                found = list(walk_runs(store, "", []))
                assert len(found) == len({one for one, _, _ in found}), "a run was shown twice"
                check_order([start for _, start, _ in found])
                walks += 1
            done = filled.get()
        seconds = time.monotonic() - begun
        runs = {one for some, _ in done for one in some}
        traces = {one for _, some in done for one in some}
        searches = {
            "runs by time": list(walk_runs(store, "", [])),
            "runs by a metric": list(walk_runs(store, "metrics.m >= 0", ["metrics.m DESC"])),
            "runs by a tag": [
                one
                for number in range(processes)
                for one in walk_runs(store, f"tags.worker = '{number}'", [])
            ],
        }
        for title, found in searches.items():
            assert {one for one, _, _ in found} == runs, title
            assert len(found) == len(runs), title
        check_order([start for _, start, _ in searches["runs by time"]])
        check_order([value for _, _, value in searches["runs by a metric"]])
        by_time = list(walk_traces(store, ""))
        assert {one for one, _ in by_time} == traces
        check_order([at for _, at in by_time])
        by_tag = [
            one
            for number in range(processes)
            for one in walk_traces(store, f"tags.worker = '{number}'")
        ]
        assert {one for one, _ in by_tag} == traces
        volumes = Volumes(store.table).of([HOME])
        page = store.table.scan(Scan())
        total = 0
        while True:
            total += sum(sum(stored_sizes(store.table.schema, i)[:2]) for i in page.items)
            if page.cursor is None:
                break
            page = store.table.scan(Scan(cursor=page.cursor))
        click.echo(
            f"{len(runs):,} runs and {len(traces):,} traces, {total / MEGABYTE:.0f} MB in "
            f"{len(volumes)} volumes, from {processes} processes in {seconds:.0f} s, without an "
            f"error; pages were walked {walks} times meanwhile; every search finds all in order"
        )


if __name__ == "__main__":
    main()
