"""Experiments full of finished runs, the same ones in every store.

Searches are measured on them, so how they came to be does not count. Each store is filled in the
fastest way it has: ours on a file by its own calls, MLflow's by rows for its tables, and ours on
DynamoDB by copying the items of the file. Of many runs only the items that searches read are
copied.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from mlflow.entities import Metric, Param, RunStatus, RunTag

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys.item_kinds import describe_item
from mlflow_dynamodbstore.table.contract import Put, Query
from mlflow_dynamodbstore.table.dynamodb.collection_sizes import CollectionSizes
from mlflow_dynamodbstore.table.values import Item

if TYPE_CHECKING:
    from bench.tracking import Bench

ROWS_AT_ONCE = 500
ITEMS_AT_ONCE = 1_000
MOST_COPIED_WHOLE = 10_000
SEARCHED = frozenset({"Run", "Metric rank", "Param rank"})


@dataclass(frozen=True)
class FinishedRun:
    """A run of 20 params, 10 metrics and 10 tags."""

    name: str
    start_time: int
    end_time: int
    tags: Sequence[RunTag]
    params: Sequence[Param]
    metrics: Sequence[Metric]


def finished_runs(count: int) -> Iterator[FinishedRun]:
    """The runs of a population of this size."""
    rng = random.Random(count)
    for n in range(count):
        yield FinishedRun(
            name=f"run {n}",
            start_time=1000 + n,
            end_time=5000 + n,
            tags=[RunTag(f"t{k}", f"{'foo' if n % 7 == k else 'bar'} {k}") for k in range(10)],
            params=[Param(f"p{k}", f"x{n % (k + 7)}") for k in range(20)],
            metrics=[Metric(f"metric{k}", rng.random(), n, 0) for k in range(10)],
        )


Filler = Callable[["Bench", str, int], None]


def by_calls(bench: Bench, experiment_id: str, count: int) -> None:
    """Fill an experiment through the store."""
    for run in finished_runs(count):
        created = bench.store.create_run(experiment_id, "user", run.start_time, run.tags, run.name)
        run_id = created.info.run_id
        bench.store.log_batch(run_id, run.metrics, run.params, [])
        bench.store.update_run_info(run_id, RunStatus.FINISHED, run.end_time, None)


def by_rows(bench: Bench, experiment_id: str, count: int) -> None:
    """Fill an experiment of MLflow's SQL store with what its own calls would have written."""
    from mlflow.store.tracking.dbmodels import models  # noqa: PLC0415 - as slow as its store

    tables = [
        model.__table__
        for model in (
            models.SqlRun,
            models.SqlTag,
            models.SqlParam,
            models.SqlMetric,
            models.SqlLatestMetric,
        )
    ]
    runs = finished_runs(count)
    while some := list(islice(runs, ROWS_AT_ONCE)):
        rows = [_rows(run, experiment_id) for run in some]
        with bench.store.engine.begin() as connection:
            for table, of_runs in zip(tables, zip(*rows, strict=True), strict=True):
                connection.execute(table.insert(), [row for of_run in of_runs for row in of_run])


def _rows(run: FinishedRun, experiment_id: str) -> tuple[list[dict[str, Any]], ...]:
    run_id = uuid.uuid4().hex
    info = {
        "run_uuid": run_id,
        "name": run.name,
        "source_type": "UNKNOWN",
        "source_name": "",
        "entry_point_name": "",
        "source_version": "",
        "user_id": "user",
        "status": "FINISHED",
        "start_time": run.start_time,
        "end_time": run.end_time,
        "lifecycle_stage": "active",
        "artifact_uri": f"s3://bucket/root/{experiment_id}/{run_id}/artifacts",
        "experiment_id": int(experiment_id),
    }
    tags = [*run.tags, RunTag("mlflow.runName", run.name)]
    values = [
        {
            "key": metric.key,
            "value": metric.value,
            "timestamp": metric.timestamp,
            "step": metric.step,
            "is_nan": False,
            "run_uuid": run_id,
        }
        for metric in run.metrics
    ]
    return [info], _pairs(tags, run_id), _pairs(run.params, run_id), values, values


def _pairs(pairs: Sequence[RunTag | Param], run_id: str) -> list[dict[str, Any]]:
    return [{"key": pair.key, "value": pair.value, "run_uuid": run_id} for pair in pairs]


def copied_from(source: Bench) -> Filler:
    """Fill an experiment with the items of the same one in another store of ours."""

    def fill(bench: Bench, experiment_id: str, count: int) -> None:
        if populated(source, count) != experiment_id:
            # The runs name their experiment, so only the same id will do.
            by_calls(bench, experiment_id, count)
            return
        items = source.store.table.items(
            Query(experiment_keys.experiment_pk(experiment_id), limit=1000)
        )
        whole = count <= MOST_COPIED_WHOLE
        wanted = (Put(item) for item in items if _is_copied(item, whole=whole))
        # For each answer that tells how full a partition is, dynoxide adds up the whole partition.
        with patch.object(CollectionSizes, "ask"):
            while some := list(islice(wanted, ITEMS_AT_ONCE)):
                bench.store.table.write(some)

    return fill


def _is_copied(item: Item, *, whole: bool) -> bool:
    """Whether an item is one of a run, and of those that searches read unless runs go whole."""
    what = describe_item(item)
    return what.kind in SEARCHED or (whole and what.kind != "Experiment")


def populated(bench: Bench, count: int) -> str:
    """The experiment of a store that holds this many finished runs, filled when first asked for."""
    name = f"population {count}"
    if name not in bench.state:
        place = bench.store.create_experiment(name)
        bench.fill(bench, place, count)
        bench.state[name] = place
    experiment_id: str = bench.state[name]
    return experiment_id
