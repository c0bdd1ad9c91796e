"""What the doctor looks at, and what it says when something is not as it should be."""

from __future__ import annotations

import boto3
import pytest

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.shared.counter_files import ServerCounters
from mlflow_dynamodbstore.table.contract import Capabilities, Put, TableState
from mlflow_dynamodbstore.table.errors import AccessDenied, SchemaMismatch
from mlflow_dynamodbstore.table.heat import Heat, Partition, table_name
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine
from mlflow_dynamodbstore.upkeep import doctor as doctor_module
from mlflow_dynamodbstore.upkeep.doctor import Doctor, Level
from mlflow_dynamodbstore.upkeep.hot_volumes import NOTHING_COUNTED
from mlflow_dynamodbstore.upkeep.table_stats import TableStats
from tests.engines import moto_server
from tests.stores import everything_in
from tests.upkeep.helpers import make_run


def findings(table, **options):
    return {found.check: found for found in Doctor(table, **options).examine()}


class ReadOnly(WrappedEngine):
    """Credentials that may look and not touch."""

    def apply(self, write):
        raise AccessDenied("not authorised")

    def apply_many(self, writes):
        raise AccessDenied("not authorised")

    def transact(self, writes, token):
        raise AccessDenied("not authorised")


class Foreign(WrappedEngine):
    """A table that somebody else has made."""

    def prepare(self, *, create):
        raise SchemaMismatch("the table has no index LSI1")


def test_all_is_well(store):
    make_run(store)
    found = findings(store.table)
    assert {one.level for one in found.values()} == {Level.OK}
    assert {
        "connection",
        "permissions",
        "schema",
        "expiry",
        "versions",
        "partitions",
        "orphans",
        "unended runs",
    } <= found.keys()


def test_what_the_credentials_do_not_allow_is_named(store):
    found = findings(Table(ReadOnly(store.table.engine)))["permissions"]
    assert found.level == Level.WARNING
    denied = "PutItem, UpdateItem, BatchWriteItem, TransactWriteItems, DeleteItem"
    assert f"denied: {denied}; `iam-policy`" in found.text


def test_a_table_that_is_not_ours_is_a_failure(store):
    found = findings(Table(Foreign(store.table.engine)))["schema"]
    assert (found.level, found.text) == (Level.FAILURE, "the table has no index LSI1")


def test_a_slow_answer_is_a_warning(store):
    seconds = iter(range(10))
    found = findings(store.table, monotonic=lambda: 2.0 * next(seconds))["connection"]
    assert found.level == Level.WARNING
    assert "2000 ms" in found.text


def test_one_slow_answer_is_none(store):
    """The first has to connect, and a machine may be busy for a moment."""
    moments = iter([0.0, 7.0, 7.0, 7.2, 8.0, 13.0])
    found = findings(store.table, monotonic=lambda: next(moments))["connection"]
    assert (found.level, "200 ms" in found.text) == (Level.OK, True)


@pytest.mark.parametrize(
    ("answered", "level"),
    [(9.0, Level.OK), (0.0, Level.OK), (26.0, Level.WARNING), (-6.0, Level.WARNING)],
)
def test_a_late_answer_says_nothing_of_the_clock(store, time, monkeypatch, answered, level):
    """The endpoint was asked at 0 and has answered at 20: when it looked, it does not tell."""
    began = time.now

    def state():
        time.sleep(20)
        return TableState(True, True, True, began + answered)

    monkeypatch.setattr(store.table.engine, "capabilities", Capabilities(state=state))
    assert findings(store.table)["clock"].level == level


@pytest.mark.parametrize(
    ("share", "level"), [(0.6, Level.OK), (0.85, Level.WARNING), (0.97, Level.FAILURE)]
)
def test_the_largest_experiments_are_held_against_the_limit(store, monkeypatch, share, level):
    """A volume closes at six tenths: far beyond it, something is wrong."""
    stats = TableStats(store.table.schema, 0.0)
    stats.add(everything_in(store.table))
    ((_, size),) = stats.largest(1)
    monkeypatch.setattr(doctor_module, "COLLECTION_LIMIT", size / share)
    found = findings(store.table)["partitions"]
    assert (found.level, "largest volumes of experiments: 0 (" in found.text) == (level, True)


def test_items_of_an_older_form_are_counted(store):
    """They need nothing: whoever writes them next writes today's form."""
    meta = store.table.get(experiment_keys.experiment_key("0"))
    store.table.put({**meta, "v": 1})
    found = findings(store.table)["versions"]
    assert (found.level, found.text[:10]) == (Level.NOTE, "1 items ha")
    store.rename_experiment("0", "renamed")
    assert findings(store.table)["versions"].level == Level.OK


def test_an_item_of_a_newer_release_is_a_failure(store):
    key = run_keys.run_key("0", "a" * 32)
    store.table.engine.apply(Put({"PK": key.pk, "SK": key.sk, "v": 7}))
    found = findings(store.table)
    assert found["versions"].level == Level.FAILURE
    assert "upgrade" in found["versions"].text
    assert "orphans" not in found


def test_a_table_on_aws_whose_expiry_was_switched_off_is_noticed(monkeypatch):
    """And its recovery, its protection, and a clock that runs wrong."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    with moto_server() as host:
        engine = open_engine(f"dynamodb://{host}/neglected?region=us-east-1", create=True)
        client = boto3.client("dynamodb", region_name="us-east-1", endpoint_url=f"http://{host}")
        off = {"AttributeName": "ttl", "Enabled": False}
        client.update_time_to_live(TableName="neglected", TimeToLiveSpecification=off)
        recovery = {"PointInTimeRecoveryEnabled": False}
        client.update_continuous_backups(
            TableName="neglected", PointInTimeRecoverySpecification=recovery
        )
        client.update_table(TableName="neglected", DeletionProtectionEnabled=False)
        found = findings(Table(engine, clock=lambda: 1_000_000_000.0))
        engine.close()
    for check in ("expiry", "recovery", "protection", "clock"):
        assert found[check].level == Level.WARNING, found[check]
    assert found["expiry"].text == "time to live is off: nothing is removed"
    assert "behind the endpoint's" in found["clock"].text


def counters_of(table, *volumes):
    """What servers have counted for these volumes: partition, requests, write units, throttles."""
    name = table_name(table.engine.uri)
    heats = {
        Partition(name, pk): Heat(requests, 0.0, write_units, throttles)
        for pk, requests, write_units, throttles in volumes
    }
    return lambda: ServerCounters(heat=[(table.clock() - 300, heats)])


def test_heat_is_what_servers_have_counted(store):
    table = store.table
    found = findings(table, counters=ServerCounters)["heat"]
    assert (found.level, found.text) == (Level.OK, NOTHING_COUNTED)
    other = Partition("dynamodb:///other.ddb", "EXP#9"), Heat(5.0)
    counted = counters_of(table, ("EXP#1", 100.0, 300.0, 0.0), ("EXP#2#3", 900.0, 600.0, 0.0))()
    counted.heat[0][1][other[0]] = other[1]
    found = findings(table, counters=lambda: counted)["heat"]
    assert found.level is Level.OK
    assert "2, volume 3 (600 write and 0 read units, 900 requests), 1 (300 write" in found.text
    assert "9 (" not in found.text


@pytest.mark.parametrize(("throttles", "level"), [(5.0, Level.NOTE), (50.0, Level.WARNING)])
def test_a_throttled_volume_is_named(store, throttles, level):
    counted = counters_of(store.table, ("EXP#1", 100.0, 300.0, throttles))
    found = findings(store.table, counters=counted)["heat"]
    assert found.level is level
    assert f"{throttles:.0f} throttled" in found.text
    assert ("`experiment spread`" in found.text) == (level is Level.WARNING)
