"""What is imported is spread over volumes as what is logged, and found by its ids and in order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow.entities import Metric, Param, RunStatus, ViewType
from mlflow.entities.trace_info import TraceInfo
from mlflow.entities.trace_location import TraceLocation
from mlflow.entities.trace_state import TraceState

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.transfer.sql import kinds
from mlflow_dynamodbstore.transfer.sql.database import Database
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from tests.places import run_place
from tests.sql import empty_database
from tests.transfer.sql.helpers import exported, imported, stores, verified

pytestmark = [
    pytest.mark.index_at_once,
    pytest.mark.one_volume(reason="each test opens the volumes that it is about"),
]

RUNS = 24


def opened(folder: Path, name: str, options: str = "") -> Table:
    return Table(open_engine(f"dynamodb:///{folder}/{name}.ddb?synchronous=NORMAL{options}"))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[str]:
    """The URI of a database with runs and traces whose ids name the first volume, 1 MB in all."""
    table = opened(tmp_path, "source")
    tracking, _ = stores(table)
    for n in range(RUNS):
        run_id = tracking.create_run("0", "u", n, [], f"run {n}").info.run_id
        params = [Param(f"p{k}", os.urandom(500).hex()) for k in range(20)]
        tracking.log_batch(run_id, [Metric("m", float(n), 1, 1)], params, [])
        tracking.update_run_info(run_id, RunStatus.FINISHED, n, None)
        where = TraceLocation.from_experiment_id("0")
        metadata = {"text": os.urandom(1_000).hex()}
        info = TraceInfo(f"tr-{n:032x}", where, n, TraceState.OK, trace_metadata=metadata)
        tracking.start_trace(info)
    uri = empty_database(tmp_path)
    exported(table, uri)
    yield uri
    table.close()


def found_by_every_order(tracking: DynamoDBTrackingStore) -> None:
    for order in ("start_time DESC", "metrics.m DESC"):
        runs = tracking.search_runs(["0"], "", ViewType.ALL, 100, [order])
        assert [run.info.start_time for run in runs] == list(range(RUNS))[::-1]
    for run in runs:
        assert tracking.get_run(run.info.run_id).info.run_name == run.info.run_name
    traces, _ = tracking.search_traces(locations=["0"])
    assert [trace.request_time for trace in traces] == list(range(RUNS))[::-1]


@pytest.mark.parametrize("limit", [300_000, 1_500_000])
def test_an_import_goes_on_in_the_next_volume(database, tmp_path, limit):
    """Also if one batch of it is larger than a volume. Nothing is left in the full one."""
    table = opened(tmp_path, "target", f"&collection_limit={limit}")
    assert imported(database, table).findings.first == []
    assert verified(kinds.importing(Database.to_read(database), table)).findings.first == []
    tracking, _ = stores(table)
    states = tracking.experiment_lookup.volumes.spread("0", 1)
    assert len(states) > 1
    found_by_every_order(tracking)
    assert Cleanup(table, dry_run=True).run().found == {}
    again = imported(database, table)
    assert again.findings.first == []
    assert again.tallies["runs"].written == 0
    table.close()


def test_an_import_leaves_closed_volumes_alone(database, tmp_path):
    """Searches by time put a closed volume off until its span, which the import does not know."""
    table = opened(tmp_path, "target")
    tracking, _ = stores(table)
    tracking.experiment_lookup.volumes.close("0", 0)
    imported(database, table)
    for run in tracking.search_runs(["0"], "", ViewType.ALL, 100):
        assert run_place(run.info.run_id).volume == 0
        assert tracking.run_lookup.get(run.info.run_id)["PK"] == "EXP#0#1"
    found_by_every_order(tracking)
    table.close()
