"""What an import costs: requests for one run, and for runs by the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow.entities import Metric, Param, RunStatus

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine, Usage
from mlflow_dynamodbstore.transfer.sql import kinds
from mlflow_dynamodbstore.transfer.sql.database import Database
from mlflow_dynamodbstore.transfer.sql.moving import Kind
from tests.sql import empty_database
from tests.stores import uri_on
from tests.traces.making import NOON
from tests.transfer.sql.filling import Theirs
from tests.transfer.sql.moves import moved

RUNS = 5


@pytest.fixture(scope="module", params=["embedded", "dynoxide"])
def engine(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[MeteredEngine]:
    with uri_on(request.param, tmp_path_factory.mktemp("costs")) as uri:
        engine = MeteredEngine(open_engine(uri))
        engine.prepare(create=True)
        yield engine
        engine.close()


def log_run(theirs: Theirs) -> None:
    """A finished run of 20 params and 10 metrics of 100 points each."""
    run_id = theirs.tracking.create_run("0", "ada", NOON, [], None).info.run_id
    points = [Metric(f"m{k}", k + n, NOON + n, n) for k in range(10) for n in range(100)]
    theirs.tracking.log_batch(run_id, points, [], [])
    theirs.tracking.log_batch(run_id, [], [Param(f"p{k}", "v") for k in range(20)], [])
    theirs.tracking.update_run_info(run_id, RunStatus.FINISHED, NOON, None)


def test_runs_take_few_requests(engine: MeteredEngine, tmp_path: Path):
    theirs = Theirs(empty_database(tmp_path))
    log_run(theirs)
    table = Table(engine)
    first = cost(theirs, table, engine)
    assert sum(first.requests.values()) <= 8
    assert first.write_units <= 90
    for _ in range(RUNS):
        log_run(theirs)
    # A page of runs is read and written together: 25 items in a request, of 72 for each run.
    assert sum(cost(theirs, table, engine).requests.values()) <= RUNS * 3 + 6


def cost(theirs: Theirs, table: Table, engine: MeteredEngine) -> Usage:
    """What importing the runs costs, once all that comes before them is there."""
    *before, runs = kinds.importing(Database.to_read(theirs.uri), table)[:4]
    moved(before)
    assert runs.name == "runs"
    return _metered(runs, engine)


def _metered(kind: Kind, engine: MeteredEngine) -> Usage:
    engine.meter.reset()
    assert moved([kind]).findings.first == []
    return engine.meter.total()
