"""What was imported lies in the table as if it had been logged here."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from mlflow.entities import Dataset, DatasetInput, Metric, Param, RunStatus, RunTag

from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys.item_kinds import describe_item
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.tracking.records import BEGUN_WITH, SEALED
from mlflow_dynamodbstore.transfer.sql import kinds
from mlflow_dynamodbstore.transfer.sql.database import Database
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from tests.sql import empty_database
from tests.stores import everything_in, uri_on
from tests.traces.making import NOON, make_info, make_spans, trace_id
from tests.transfer.sql.helpers import imported, stores, verified
from tests.transfer.sql.mlflow_database import Theirs

pytestmark = pytest.mark.index_at_once


def test_nothing_of_it_is_an_orphan(source: Theirs, table):
    imported(source.uri, table)
    report = Cleanup(table, dry_run=True).run()
    assert report.finished
    assert not report.found
    assert not [i["SK"] for i in everything_in(table) if describe_item(i).kind == "Unknown"]


def log(store, registry) -> None:
    """The same calls, to a store of MLflow's or of ours."""
    run_id = store.create_run("0", "ada", NOON, [RunTag("k", "v")], "a run").info.run_id
    points = [Metric("loss", 1 / (n + 1), NOON + n, n) for n in range(10)]
    store.log_batch(run_id, points, [Param("p", "1")], [])
    store.update_run_info(run_id, RunStatus.FINISHED, NOON + 5, None)
    store.create_run("0", "ada", NOON, [], "still running")
    data = [Dataset("mnist", digest, "s3", f"s3://{digest}") for digest in ("1", "2")]
    store.log_inputs(run_id, [DatasetInput(one) for one in data])
    model = store.create_logged_model("0", "tree", run_id)
    store.create_logged_model("0", "tree", run_id)
    store.log_metric(run_id, Metric("auc", 0.5, NOON, 0, model_id=model.model_id))
    store.update_run_info(run_id, RunStatus.FINISHED, NOON + 5, None)
    store.log_spans("0", make_spans(trace_id(1), 4))
    store.start_trace(make_info(trace_id(1), "0"))
    registry.create_registered_model("iris")
    registry.create_model_version("iris", "s3://m", run_id)
    registry.set_registered_model_alias("iris", "champion", "1")


LEFT_OUT = {"", "outside", "_w", "volume", BEGUN_WITH, "db_payload_generation"}
"""Attributes of what begins here, and of MLflow's database."""


def shape(item: Item) -> tuple[str, ...]:
    """The kind of an item and the names of its attributes."""
    # What a change of an alias leaves behind is of who changed it here.
    names = {re.sub("^h:.*", "", name) for name in item} - LEFT_OUT
    pieces = str(len(item["SK"].split("#")))
    return (describe_item(item).kind, pieces, *sorted(names))


def test_it_has_the_items_and_attributes_that_our_own_have(table, tmp_path: Path):
    theirs = Theirs(empty_database(tmp_path))
    log(theirs.tracking, theirs.registry)
    imported(theirs.uri, table)
    own = Table(open_engine(f"dynamodb:///{tmp_path}/own.ddb?synchronous=NORMAL"))
    log(*stores(own))
    one, other = (
        Counter(shape(item) for item in everything_in(some) if not item["SK"].startswith("LIVE#"))
        for some in (table, own)
    )
    only_here, only_there = one - other, other - one
    # The counter of experiments stands at the number of the default one.
    assert {kind for kind, *_ in only_here} == {"Counter"}
    # The default workspace gets its item when a server opens the table.
    assert {kind for kind, *_ in only_there} == {"Workspace"}


def test_ended_runs_are_sealed_and_others_live(source: Theirs, table):
    imported(source.uri, table)
    runs = [i for i in everything_in(table) if describe_item(i).kind == "Run"]
    assert len(runs) == 8
    for run in runs:
        ended = run["status"] in ("FINISHED", "FAILED", "KILLED")
        assert (run["state"] == SEALED) == ended
        assert (str(run.get("lsi5sk")) in index_keys.LIVE_RUNS) != ended


def test_an_imported_run_can_be_written_to(source: Theirs, table):
    imported(source.uri, table)
    tracking, _ = stores(table)
    (run,) = tracking.search_runs(["1"], "tags.n = '1'", 1, 1)
    run_id = run.info.run_id
    before = tracking.get_metric_history(run_id, "many")
    tracking.log_metric(run_id, Metric("many", 5.0, NOON + 10**6, 10**6))
    tracking.set_tag(run_id, RunTag("n", "changed"))
    assert tracking.get_run(run_id).data.metrics["many"] == 5.0
    assert len(tracking.get_metric_history(run_id, "many")) == len(before) + 1
    assert tracking.search_runs(["1"], "tags.n = 'changed'", 1, 1)[0].info.run_id == run_id


@pytest.mark.parametrize("engine", ["dynoxide"])
def test_an_import_over_the_wire_is_complete(source: Theirs, tmp_path, engine):
    with uri_on(engine, tmp_path) as uri:
        table = Table(open_engine(uri))
        table.engine.prepare(create=True)
        assert imported(source.uri, table).findings.first == []
        verification = verified(kinds.importing(Database.to_read(source.uri), table))
        assert verification.findings.first == []
        table.close()
