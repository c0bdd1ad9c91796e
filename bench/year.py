"""A year of a large experiment, computed from items that are measured: sizes, volumes and prices.

``python -m bench.year`` prints the tables of the operations page.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
from mlflow.entities import Metric, Param, RunStatus, RunTag
from rich.console import Console
from rich.table import Table as Grid

from mlflow_dynamodbstore.shared.volumes import CLOSED_WHEN_FULL
from mlflow_dynamodbstore.table.contract import Scan
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.upkeep.prices import MILLION, PRICE_PER_GB, WRITE_PRICE
from mlflow_dynamodbstore.upkeep.table_stats import GB, stored_sizes
from tests.traces.making import client_metadata, make_info, make_spans, trace_id

SAMPLE = 5
RUNS, TRACES = 1_000_000, 20_000_000
TRACE_DAYS = 30
LIMIT = 10 * GB


@dataclass(frozen=True)
class Measured:
    """One run or trace: its bytes in its partition, in all, and the write units of making it."""

    local: float
    total: float
    units: float


def measure(make: Callable[[DynamoDBTrackingStore, int], None]) -> Measured:
    """The mean of a few runs or traces."""
    with tempfile.TemporaryDirectory() as folder:
        engine = MeteredEngine(open_engine(f"dynamodb:///{Path(folder) / 'year.ddb'}"))
        table = Table(engine)
        store = DynamoDBTrackingStore("dynamodb:///year.ddb", "s3://bucket/root", table=table)
        before = _bytes(store)
        engine.meter.reset()
        for number in range(SAMPLE):
            make(store, number)
        units = engine.meter.write_units
        after = _bytes(store)
        local, total = (b - a for a, b in zip(before, after, strict=True))
        return Measured(local / SAMPLE, total / SAMPLE, units / SAMPLE)


def _run(store: DynamoDBTrackingStore, number: int) -> None:
    """A training run: 10 tags, 20 params, 10 metrics at each of 1,000 steps."""
    tags = [RunTag(f"tag_{n}", f"value {n}") for n in range(10)]
    run_id = store.create_run("0", "user", number, tags, f"run {number}").info.run_id
    params = [Param(f"param_{n}", os.urandom(6).hex()) for n in range(20)]
    store.log_batch(run_id, [], params, [])
    for step in range(1_000):
        at = 1_700_000_000_000 + step * 137
        values = [Metric(f"metric_{n}", random.random(), at, step) for n in range(10)]
        store.log_batch(run_id, values, [], [])
    store.update_run_info(run_id, RunStatus.FINISHED, number + 1, None)


def _trace(store: DynamoDBTrackingStore, number: int) -> None:
    """A trace of ten spans, as MLflow's client sends it."""
    trace = trace_id(number)
    store.log_spans("0", make_spans(trace))
    store.start_trace(make_info(trace, "0", metadata=client_metadata()))


def _bytes(store: DynamoDBTrackingStore) -> tuple[int, int]:
    local = total = 0
    page = store.table.scan(Scan())
    while True:
        for item in page.items:
            own, in_local, in_global = stored_sizes(store.table.schema, item)
            total += own + in_local + in_global
            local += own + in_local if str(item["PK"]).startswith("EXP#") else 0
        if page.cursor is None:
            return local, total
        page = store.table.scan(Scan(cursor=page.cursor))


@click.command()
def main() -> None:
    """Print what a year holds and costs."""
    run, trace = measure(_run), measure(_trace)
    grid = Grid("", "one run", "one trace of 10 spans")
    grid.add_row("bytes in its partition", f"{run.local:,.0f}", f"{trace.local:,.0f}")
    grid.add_row("bytes in all", f"{run.total:,.0f}", f"{trace.total:,.0f}")
    grid.add_row("write units", f"{run.units:,.0f}", f"{trace.units:,.0f}")
    Console(width=120).print(grid)
    kept = TRACES * TRACE_DAYS / 365
    held = run.local * RUNS, trace.local * kept
    volume = LIMIT * CLOSED_WHEN_FULL
    year = Grid("after a year", "runs", "traces", "together")
    year.add_row("kept", f"{RUNS:,}", f"{kept:,.0f}", "")
    year.add_row("GB in partitions", *(f"{size / GB:,.0f}" for size in (*held, sum(held))))
    written = run.local * RUNS + trace.local * TRACES
    year.add_row("volumes opened", "", "", f"{written / volume:,.0f}")
    year.add_row("volumes that still hold something", "", "", f"{sum(held) / volume:,.0f}")
    stored = (run.total * RUNS + trace.total * kept) / GB * PRICE_PER_GB
    writes = (run.units * RUNS + trace.units * TRACES) / 12 / MILLION * WRITE_PRICE
    year.add_row("storage, a month", "", "", f"${stored:,.0f}")
    year.add_row("writes, a month", "", "", f"${writes:,.0f}")
    Console(width=120).print(year)


if __name__ == "__main__":
    main()
