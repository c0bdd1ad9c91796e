"""What an import costs: requests for one run, and for runs by the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine, Usage
from mlflow_dynamodbstore.transfer.sql import kinds
from mlflow_dynamodbstore.transfer.sql.database import Database
from tests.sql import empty_database
from tests.stores import uri_on
from tests.traces.making import NOON
from tests.transfer.sql.helpers import moved
from tests.transfer.sql.mlflow_database import Theirs

RUNS = 20
"""Runs that are moved together after the first."""


@pytest.fixture(scope="module", params=["embedded", "dynoxide"])
def engine(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[MeteredEngine]:
    with uri_on(request.param, tmp_path_factory.mktemp("costs")) as uri:
        engine = MeteredEngine(open_engine(uri))
        engine.prepare(create=True)
        yield engine
        engine.close()


def add_runs(database: Database, numbers: range) -> None:
    """Finished runs of 20 params and 10 metrics of 100 points each, as MLflow has them."""
    ids = [f"{n:032x}" for n in numbers]
    run = {
        "status": "FINISHED",
        "start_time": NOON,
        "lifecycle_stage": "active",
        "experiment_id": 0,
        "user_id": "ada",
        "name": "run",
        "artifact_uri": "s3://bucket",
    }
    point = {"value": 1.5, "is_nan": False}
    last = {"timestamp": NOON + 99, "step": 99, **point}
    with database.transaction() as transaction:
        transaction.insert("runs", [{"run_uuid": one, **run} for one in ids])
        transaction.insert(
            "params",
            [{"run_uuid": i, "key": f"p{k}", "value": "v"} for i in ids for k in range(20)],
        )
        transaction.insert(
            "latest_metrics",
            [{"run_uuid": i, "key": f"m{k}", **last} for i in ids for k in range(10)],
        )
        transaction.insert(
            "metrics",
            [
                {"run_uuid": i, "key": f"m{k}", "timestamp": NOON + n, "step": n, **point}
                for i in ids
                for k in range(10)
                for n in range(100)
            ],
        )


def test_runs_take_few_requests(engine: MeteredEngine, tmp_path: Path):
    uri = empty_database(tmp_path)
    assert Theirs(uri).tracking.get_experiment("0")
    database, table = Database.to_read(uri), Table(engine)
    add_runs(database, range(1))
    first = cost(database, table, engine)
    assert sum(first.requests.values()) <= 9  # one of them asks whether ids were ever changed
    assert first.write_units <= 90
    add_runs(database, range(1, RUNS + 1))
    # A page of runs is read and written together: 25 items in a request, of 71 for each run.
    assert sum(cost(database, table, engine).requests.values()) <= RUNS * 3 + 7


def cost(database: Database, table: Table, engine: MeteredEngine) -> Usage:
    """What importing the runs costs, once all that comes before them is there."""
    *before, runs = kinds.importing(database, table)[:4]
    assert runs.name == "runs"
    moved(before)
    engine.meter.reset()
    assert moved([runs]).findings.first == []
    return engine.meter.total()
