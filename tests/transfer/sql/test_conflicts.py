"""What is there and different is named and left alone; what cannot be held is refused."""

from __future__ import annotations

import random

import pytest
import sqlalchemy as sa
from mlflow.entities import ExperimentTag, Metric, RunTag, TraceInfo, ViewType
from mlflow.entities.trace_location import TraceLocation
from mlflow.entities.trace_state import TraceState
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.transfer.sql import kinds
from mlflow_dynamodbstore.transfer.sql.database import Database
from tests.places import items_in, partitions, run_place
from tests.sql import empty_database
from tests.traces.making import NOON
from tests.transfer.sql.helpers import exported, imported, stores, verified
from tests.transfer.sql.mlflow_database import Theirs

pytestmark = pytest.mark.index_at_once


def run_named(store: DynamoDBTrackingStore, name: str) -> str:
    (run,) = store.search_runs(["0", "1"], f"attributes.run_name = '{name}'", ViewType.ALL, 10)
    return str(run.info.run_id)


def test_a_run_that_was_changed_meanwhile_stays_as_it_is(source: Theirs, table):
    imported(source.uri, table)
    tracking, _ = stores(table)
    run_id = run_named(tracking, "run 2")
    tracking.set_tag(run_id, RunTag("n", "changed"))
    move = imported(source.uri, table)
    (finding,) = move.findings.first
    assert finding.kind == "runs"
    assert finding.name == run_id
    assert finding.sentence == "exists and differs: tags.n: '2', not 'changed'"
    assert move.tallies["runs"].conflicts == 1
    assert tracking.get_run(run_id).data.tags["n"] == "changed"


def test_what_lies_in_another_experiment_of_the_same_number_is_held_back(source: Theirs, table):
    tracking, _ = stores(table)
    assert tracking.create_experiment("not the first") == "1"
    move = imported(source.uri, table)
    first, *others = move.findings.first
    assert first.kind == "experiments"
    assert "name: 'first', not 'not the first'" in first.sentence
    # Its endpoint of the gateway is held back, so the endpoint's guardrails have no place.
    assert {other.kind for other in others} == {"gateway guardrail uses"}
    assert {other.sentence for other in others} == {"cannot be moved: its endpoint does not exist"}
    assert move.tallies["runs"].held_back == 6
    assert move.tallies["runs"].written == 2
    assert move.tallies["traces"].held_back == move.tallies["traces"].found
    assert not tracking.search_runs(["1"], "", ViewType.ALL, 10)


def test_an_experiment_whose_name_is_taken_is_refused(source: Theirs, table):
    tracking, _ = stores(table)
    for n in range(6):
        tracking.create_experiment(f"own {n}")
    tracking.create_experiment("gone")
    for n in range(1, 4):
        tracking.delete_experiment(str(n))
        tracking._hard_delete_experiment(str(n))
    move = imported(source.uri, table)
    (finding,) = move.findings.first
    assert finding.sentence == (
        "cannot be moved: experiment 7 already has its name, 'gone'. "
        "Import with --prefix or --into-workspace, or rename one of the two."
    )
    assert move.tallies["runs"].held_back == 1


def test_numbers_of_imported_experiments_are_not_given_again(source: Theirs, table):
    imported(source.uri, table)
    tracking, _ = stores(table)
    tracking._hard_delete_experiment("3")  # the greatest, deleted in the database
    assert tracking.create_experiment("next") == "4"


def test_numbers_of_deleted_versions_are_not_given_again(source: Theirs, table, tmp_path):
    imported(source.uri, table)
    target = empty_database(tmp_path)
    exported(table, target)
    _, registry = stores(table)
    for store in (registry, Theirs(target).registry):
        assert int(store.create_model_version("iris", "s3://next").version) == 5


# --- the default experiment ---------------------------------------------------------------------


def test_an_unused_default_experiment_gives_way(source: Theirs, table):
    tracking, _ = stores(table)
    source.tracking.rename_experiment("0", "not Default")
    move = imported(source.uri, table)
    assert move.findings.first == []
    assert move.tallies["experiments"].merged == 1
    assert tracking.get_experiment("0").name == "not Default"
    assert tracking.get_experiment_by_name("Default") is None
    assert verified(kinds.importing(Database.to_read(source.uri), table)).findings.first == []


def test_an_unused_default_experiment_keeps_its_volumes(source: Theirs, table):
    tracking, _ = stores(table)
    tracking.experiment_lookup.volumes.spread("0", 5)
    source.tracking.rename_experiment("0", "not Default")
    imported(source.uri, table)
    assert tracking.get_experiment("0").name == "not Default"
    assert len(partitions(table, "0")) == 5


def test_a_default_experiment_with_runs_in_any_volume_is_used(source: Theirs, tmp_path):
    table = Table(open_engine(f"dynamodb:///{tmp_path}/spread.ddb?synchronous=NORMAL&spread=3"))
    tracking, _ = stores(table)
    tracking.experiment_lookup.volumes.close("0", 0)
    assert run_place(tracking.create_run("0", "bob", NOON, [], "own").info.run_id).volume
    source.tracking.rename_experiment("0", "not Default")
    imported(source.uri, table)
    assert tracking.get_experiment("0").name == "Default"
    table.close()


def test_a_used_default_experiment_takes_in_runs_and_tags(source: Theirs, table):
    tracking, _ = stores(table)
    own = tracking.create_run("0", "bob", NOON, [], "own").info.run_id
    tracking.set_experiment_tag("0", ExperimentTag("own", "yes"))
    made = tracking.get_experiment("0").creation_time
    move = imported(source.uri, table)
    assert move.findings.first == []
    default = tracking.get_experiment("0")
    assert default.tags == {"own": "yes", "of the default": "yes"}
    assert default.creation_time == made
    runs = {run.info.run_id for run in tracking.search_runs(["0"], "", ViewType.ALL, 10)}
    assert runs == {own, run_named(tracking, "in the default experiment")}
    assert verified(kinds.importing(Database.to_read(source.uri), table)).findings.first == []


def test_a_default_experiment_with_another_value_of_a_tag_is_a_conflict(source: Theirs, table):
    tracking, _ = stores(table)
    tracking.set_experiment_tag("0", ExperimentTag("of the default", "no"))
    move = imported(source.uri, table)
    assert move.findings.first[0].name == "0"
    assert move.tallies["experiments"].conflicts == 1
    assert move.tallies["runs"].held_back == 1


# --- what cannot be held ------------------------------------------------------------------------


def test_a_trace_too_large_for_an_item_is_refused_and_nothing_of_it_written(source: Theirs, table):
    location = TraceLocation.from_experiment_id("1")
    info = TraceInfo("tr-large", location, NOON, TraceState.OK, request_preview="ü" * 150_000)
    source.tracking.start_trace(info)
    move = imported(source.uri, table)
    (finding,) = move.findings.first
    assert finding.name == "tr-large"
    assert finding.sentence.startswith("cannot be moved: it needs an item of 60")
    assert table.get(trace_keys.trace_locator_key("tr-large")) is None
    verification = verified(kinds.importing(Database.to_read(source.uri), table))
    assert [f.sentence for f in verification.findings.first] == ["is missing"]


def test_what_does_not_fit_into_a_traces_own_item_is_moved(source: Theirs, table, tmp_path):
    dice = random.Random(7)
    metadata = {f"key {n}": dice.randbytes(3_500).hex() for n in range(60)}
    tags = {f"tag {n}": dice.randbytes(500).hex() for n in range(350)}
    location = TraceLocation.from_experiment_id("1")
    info = TraceInfo("tr-large", location, NOON, TraceState.OK, trace_metadata=metadata, tags=tags)
    source.tracking.start_trace(info)
    assert not imported(source.uri, table).findings.first
    assert not verified(kinds.importing(Database.to_read(source.uri), table)).findings.first
    tracking, _ = stores(table)
    found = tracking.get_trace_info("tr-large")
    assert tags.items() <= found.tags.items()
    assert metadata.items() <= found.trace_metadata.items()
    assert not exported(table, empty_database(tmp_path)).findings.first


def test_values_that_a_database_cannot_tell_apart_are_refused(table, tmp_path):
    tracking, _ = stores(table)
    run_id = tracking.create_run("0", "ada", NOON, [], "r").info.run_id
    model = tracking.create_logged_model("0", "m")
    for digest in ("d1", "d2"):
        metric = Metric(
            "auc", 0.5, NOON, 0, model_id=model.model_id, dataset_name="d", dataset_digest=digest
        )
        tracking.log_metric(run_id, metric)
    move = exported(table, empty_database(tmp_path))
    (finding,) = move.findings.first
    assert finding.kind == "logged models"
    assert "for several datasets" in finding.sentence


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("k", "v" * 8_001, "value in tags holds 8,000 characters, not 8,001"),
        ("k", "a\0b", "value in tags cannot hold a zero character"),
    ],
)
def test_texts_that_a_strict_database_refuses_are_refused_before(
    table, tmp_path, monkeypatch, key, value, sentence
):
    tracking, _ = stores(table)
    run_id = tracking.create_run("0", "ada", NOON, [RunTag(key, value)], "r").info.run_id
    tracking.create_run("0", "ada", NOON, [], "other")
    monkeypatch.setattr(Database, "is_strict", True)
    move = exported(table, empty_database(tmp_path))
    assert [(f.name, f.sentence) for f in move.findings.first] == [
        (run_id, f"cannot be moved: {sentence}")
    ]
    assert move.tallies["runs"].written == 1


# --- verifying ----------------------------------------------------------------------------------


def test_histories_are_found_in_any_volume(source: Theirs, tmp_path):
    table = Table(open_engine(f"dynamodb:///{tmp_path}/spread.ddb?synchronous=NORMAL&spread=3"))
    imported(source.uri, table)
    assert verified(kinds.importing(Database.to_read(source.uri), table)).findings.first == []
    table.close()


def test_a_point_that_is_missing_is_found(source: Theirs, table):
    imported(source.uri, table)
    run_id = run_named(stores(table)[0], "run 1")
    first, *_ = items_in(table, "1", run_keys.metric_history(run_id, "many"))
    table.delete(table.schema.key_of(first))
    verification = verified(kinds.importing(Database.to_read(source.uri), table))
    (finding,) = verification.findings.first
    assert finding.name == run_id
    assert finding.sentence == "differs: history of many: 2,500 points and 1,500"
    assert verification.tallies["runs"].different == 1


@pytest.mark.parametrize("uri", ["nothing", "nodatabase://x", "sqlite:////nowhere/at/all.db"])
def test_a_bad_uri_gets_a_sentence(uri):
    with pytest.raises(ValueError, match="database"):
        Database.to_read(uri)


def test_what_is_no_database_at_all_gets_a_sentence(tmp_path):
    (tmp_path / "letter.txt").write_text("Dear Ada, this is not a database. " * 100)
    with pytest.raises(MlflowException, match="failed: file is not a database"):
        Database.to_read(f"sqlite:///{tmp_path}/letter.txt")


def test_a_database_of_an_older_schema_is_to_be_upgraded_first(source: Theirs):
    database = Database.to_read(source.uri)
    with database.transaction() as transaction:
        transaction.connection.execute(sa.text("UPDATE alembic_version SET version_num = 'old'"))
    with pytest.raises(ValueError, match="mlflow db upgrade"):
        Database.to_read(source.uri)
