"""What a workload costs a month on DynamoDB: one of each thing is done and measured, then counted.

A sample of the workload runs on an empty table in a temporary file, whose requests are charged by
DynamoDB's rules. So the estimate follows what the stores really do; only the numbers are assumed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from mlflow.entities import Metric, Param, RunStatus, RunTag, Span, TraceInfo, TraceState, ViewType
from mlflow.entities.trace_location import TraceLocation

from mlflow_dynamodbstore.shared.policies import (
    DEFAULTS,
    METRIC_HISTORY_RETENTION,
    TRACE_RETENTION,
)
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.upkeep.prices import PRICE_PER_GB, dollars
from mlflow_dynamodbstore.upkeep.segmented_scan import SegmentedScan
from mlflow_dynamodbstore.upkeep.table_stats import GB, TableStats

DAYS_A_MONTH = 30.4
FREE_GB = 25
MOST_SAMPLED_CALLS = 500
"""Calls that are measured; the cost of further ones is the same."""
LISTED_RUNS = 100
"""Runs on a page of the UI's list."""
HISTORY = "Metric history"
_START = 1_700_000_000_000


@dataclass(frozen=True)
class Workload:
    """What a team does; days are those after which something expires, 0 for never."""

    runs_a_day: float = 100
    params: int = 20
    tags: int = 10
    metrics: int = 10
    steps: int = 1_000
    traces_a_day: float = 1_000
    spans: int = 10
    searches_a_day: float = 1_000
    trace_days: int = int(DEFAULTS[TRACE_RETENTION])
    history_days: int = int(DEFAULTS[METRIC_HISTORY_RETENTION])
    months: float = 12


class Line(NamedTuple):
    """Something that is done so often a month, and the units of doing it once."""

    what: str
    times: float
    read_units: float
    write_units: float

    @property
    def dollars(self) -> float:
        return dollars(self.times * self.read_units, self.times * self.write_units)


class Stored(NamedTuple):
    """Something of which so many are kept, and the bytes of one with its index entries."""

    what: str
    kept: float
    bytes: float

    @property
    def gigabytes(self) -> float:
        return self.kept * self.bytes / GB


@dataclass(frozen=True)
class CostEstimate:
    """The cost of a workload, line by line."""

    workload: Workload
    requests: list[Line]
    storage: list[Stored]

    @property
    def request_dollars(self) -> float:
        return sum(line.dollars for line in self.requests)

    @property
    def gigabytes(self) -> float:
        return sum(one.gigabytes for one in self.storage)

    @property
    def storage_dollars(self) -> float:
        """The price of what is beyond the free part."""
        return max(0.0, self.gigabytes - FREE_GB) * PRICE_PER_GB

    @property
    def monthly_dollars(self) -> float:
        return self.request_dollars + self.storage_dollars


def estimate(workload: Workload) -> CostEstimate:
    """Measure a sample of a workload, and add up what all of it costs a month."""
    with _sample() as sample:
        return _counted(workload, sample)


class Sample:
    """An empty table that is charged by DynamoDB's rules, with one experiment."""

    def __init__(self, engine: MeteredEngine):
        self.meter = engine.meter
        self.table = Table(engine)
        self.store: Any = DynamoDBTrackingStore("", "s3://bucket", table=self.table)
        self.experiment_id = self.store.create_experiment("sample")
        self._numbers = random.Random(1)

    def run(self, workload: Workload, calls: int) -> Iterator[str]:
        """Do what a run does, and say after each step what it was."""
        store = self.store
        tags = [RunTag(f"tag {n}", "some value") for n in range(workload.tags)]
        run_id = store.create_run(self.experiment_id, "user", _START, tags, "run").info.run_id
        params = [Param(f"param {n}", f"{n}.25") for n in range(workload.params)]
        if params:
            store.log_batch(run_id, [], params, [])
        yield "create"
        for step in range(calls):
            store.log_batch(run_id, self.points(workload.metrics, step), [], [])
        yield "log"
        store.update_run_info(run_id, RunStatus.FINISHED, _START + calls, None)
        yield "end"

    def points(self, metrics: int, step: int) -> list[Metric]:
        return [
            Metric(f"metric {n}", self._numbers.random(), _START + step, step)
            for n in range(metrics)
        ]

    def trace(self, spans: int, number: int) -> None:
        """Write a trace as a client does."""
        trace_id = f"tr-{number:032x}"
        if spans:
            self.store.log_spans(self.experiment_id, [_span(trace_id, n) for n in range(spans)])
        location = TraceLocation.from_experiment_id(self.experiment_id)
        info = TraceInfo(
            trace_id,
            location,
            _START,
            TraceState.OK,
            execution_duration=30,
            tags={"mlflow.traceName": "predict"},
        )
        self.store.start_trace(info)

    def sizes(self) -> tuple[float, float]:
        """The bytes in the table: those of histories of metrics, and all others."""
        stats = TableStats(self.table.schema, self.table.clock())
        scan = SegmentedScan.start(self.table, 1)
        while not scan.is_done:
            stats.add(scan.next_items())
        history = stats.by_kind[HISTORY]
        total, own = stats.total, history.bytes + history.index_bytes
        return own, total.bytes + total.index_bytes - own


@contextmanager
def _sample() -> Iterator[Sample]:
    with TemporaryDirectory(prefix="estimate-") as folder:
        engine = MeteredEngine(
            open_engine(
                f"dynamodb:///{Path(folder) / 'sample.ddb'}?synchronous=NORMAL", create=True
            )
        )
        try:
            yield Sample(engine)
        finally:
            engine.close()


def _counted(workload: Workload, sample: Sample) -> CostEstimate:
    calls = min(workload.steps, MOST_SAMPLED_CALLS)
    scale = workload.steps / calls if calls else 0.0
    empty = sample.sizes()
    units = _units_of_run(workload, sample, calls)
    one_run = sample.sizes()
    history = (one_run[0] - empty[0]) * scale
    with sample.meter.measure() as tracing:
        sample.trace(workload.spans, 1)
    trace = sum(sample.sizes()) - sum(one_run)
    listed = _units_of_list(workload, sample)
    runs = workload.runs_a_day * DAYS_A_MONTH
    traces = workload.traces_a_day * DAYS_A_MONTH
    return CostEstimate(
        workload,
        [
            Line("create a run, with params and tags", runs, *units["create"]),
            Line(
                "call that logs metrics",
                runs * workload.steps,
                *(one / calls if calls else 0.0 for one in units["log"]),
            ),
            Line("end a run", runs, *units["end"]),
            Line("write a trace", traces, tracing.read_units, tracing.write_units),
            Line(f"list {LISTED_RUNS} runs", workload.searches_a_day * DAYS_A_MONTH, listed, 0.0),
        ],
        [
            Stored("run", runs * workload.months, one_run[1] - empty[1]),
            Stored("history of a run's metrics", _kept(workload, runs), history),
            Stored(
                "trace",
                traces * min(workload.months, _months(workload.trace_days)),
                trace,
            ),
        ],
    )


def _units_of_run(workload: Workload, sample: Sample, calls: int) -> dict[str, tuple[float, float]]:
    units = {}
    steps = sample.run(workload, calls)
    for _ in range(3):
        with sample.meter.measure() as used:
            step = next(steps)
        units[step] = used.read_units, used.write_units
    return units


def _units_of_list(workload: Workload, sample: Sample) -> float:
    for _ in range(LISTED_RUNS):
        list(sample.run(workload, 1))
    with sample.meter.measure() as used:
        sample.store.search_runs([sample.experiment_id], "", ViewType.ACTIVE_ONLY, LISTED_RUNS)
    return used.read_units


def _kept(workload: Workload, runs: float) -> float:
    return runs * min(workload.months, _months(workload.history_days))


def _months(days: int) -> float:
    return days / DAYS_A_MONTH if days else float("inf")


def _span(trace_id: str, n: int) -> Span:
    """A span of ordinary size: a question, an answer and the tokens that they took."""
    tokens = {"input_tokens": 120, "output_tokens": 80, "total_tokens": 200}
    attributes = {
        "mlflow.traceRequestId": trace_id,
        "mlflow.spanType": "LLM" if n % 3 == 0 else "TOOL",
        "mlflow.spanInputs": {"question": f"What is the answer number {n}?"},
        "mlflow.spanOutputs": {"answer": f"It is {random.Random(n).random()}."},
        **({"mlflow.chat.tokenUsage": tokens} if n % 3 == 0 else {}),
    }
    return Span.from_dict(
        {
            "trace_id": trace_id,
            "span_id": f"{n + 1:016x}",
            "parent_span_id": None if n == 0 else f"{1:016x}",
            "name": f"step {n}",
            "start_time_unix_nano": (_START + n) * 1_000_000,
            "end_time_unix_nano": (_START + n + 5) * 1_000_000,
            "events": [],
            "status": {"code": "STATUS_CODE_OK", "message": ""},
            "attributes": {name: json.dumps(value) for name, value in attributes.items()},
        }
    )
