"""What the doctor and the stores say of damage in a file."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from mlflow.entities import Metric, RunStatus, ViewType

from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.cli.exits import FINDINGS
from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.upkeep.doctor import Doctor, Level
from tests.places import run_place
from tests.stores import ARTIFACTS, everything_in, refused
from tests.table.embedded.damaging import change_rows, flip, overwrite_page
from tests.upkeep.helpers import items_of, make_run

MARK = "a quick brown fox"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mlflow.ddb"


@pytest.fixture
def damaged(store, path, time):
    """A store with two runs, opened again after the file was damaged."""
    good = make_run(store)
    bad = make_run(store, tags={"mark": MARK}, ended=False)
    store.table.close()
    tables = []

    def reopen(damage):
        damage()
        tables.append(Table(open_engine(f"dynamodb:///{path}?synchronous=NORMAL"), clock=time))
        return DynamoDBTrackingStore("", ARTIFACTS, table=tables[-1]), good, bad

    yield reopen
    for table in tables:
        table.close()


def findings(table):
    return {found.check: found for found in Doctor(table).examine()}


def test_a_sound_file_is_called_sound(store):
    make_run(store)
    found = findings(store.table)
    assert found["file"].level == found["damage"].level == Level.OK


def test_a_flipped_byte_is_found_and_its_item_named(damaged, path):
    store, _, bad = damaged(lambda: flip(path, MARK.encode(), at=3, with_=1))
    found = findings(store.table)["damage"]
    assert found.level == Level.FAILURE
    assert f"R#{bad}#TAG#mark in {run_place(bad).pk}: its content is damaged" in found.text
    assert "dump --skip-damaged" in found.text


def test_the_other_runs_stay_readable(damaged, path):
    store, good, bad = damaged(lambda: flip(path, MARK.encode(), at=3))
    assert store.get_run(good).data.params == {"lr": "0.1"}
    with refused("DATA_LOSS", f"'R#{bad}#TAG#mark' in '{run_place(bad).pk}' is damaged"):
        store.get_run(bad)


def test_a_search_that_meets_a_damaged_item_names_it(damaged, path):
    """It leaves nothing out silently. Other experiments are searched as before."""
    store, _, bad = damaged(lambda: flip(path, MARK.encode(), at=3))
    with refused("DATA_LOSS", f"'R#{bad}#TAG#mark' in '{run_place(bad).pk}' is damaged"):
        store.search_runs(["0"], "", ViewType.ALL)
    other = store.create_experiment("other")
    run = make_run(store, other)
    assert [one.info.run_id for one in store.search_runs([other], "", ViewType.ALL)] == [run]


def test_a_page_that_cannot_be_read_is_found(store, path):
    make_run(store, tags={"mark": MARK})
    store.table.close()
    overwrite_page(path, MARK.encode())
    table = Table(open_engine(f"dynamodb:///{path}?synchronous=NORMAL"))
    found = findings(table)
    table.close()
    assert found["file"].level == Level.FAILURE
    assert found["damage"].level == Level.FAILURE


def damage_attribute(table, sk, name):
    """Flip the last byte of a packed value, as if the item had been written so."""
    (item,) = [one for one in everything_in(table) if one["SK"] == sk]
    value = item[name]
    table.write([Put({**item, name: value[:-1] + bytes([value[-1] ^ 1])})])


def test_a_damaged_summary_is_named(store):
    run = make_run(store, params={f"p{n}": "x" * 50 for n in range(50)})
    pk = run_place(run).pk
    damage_attribute(store.table, f"R#{run}", "summary")
    for read in (
        lambda: store.get_run(run),
        lambda: store.search_runs(["0"], "", ViewType.ALL),
        lambda: store.search_runs(["0"], "params.p1 != 'x'", ViewType.ALL),
    ):
        with refused("DATA_LOSS", f"summary in the item 'R#{run}' in '{pk}' is damaged"):
            read()
    assert f"R#{run} in {pk}: summary is damaged" in findings(store.table)["damage"].text


def test_damaged_points_are_named(store):
    run = make_run(store, ended=False)
    store.log_batch(run, [Metric("acc", n / 7, n, n) for n in range(100)], [], [])
    store.update_run_info(run, RunStatus.FINISHED, 9, None)
    (point,) = [one for one in items_of(store, "#acc#") if "points" in one]
    damage_attribute(store.table, point["SK"], "points")
    with refused("DATA_LOSS", "points in the item"):
        store.get_metric_history(run, "acc")
    assert "points is damaged" in findings(store.table)["damage"].text


def test_a_damaged_log_is_named(store):
    run = make_run(store, ended=False)
    (segment,) = items_of(store, "LIVE#")
    store.table.write([Put({**segment, "entries": segment["entries"][:-3] + b"\xc1"})])
    with refused("DATA_LOSS", "entries in the item"):
        store.get_run(run)
    assert "entries" in findings(store.table)["damage"].text


def test_the_command_ends_with_its_code(damaged, path):
    damaged(lambda: change_rows(path, "UPDATE items SET body = x'c1' WHERE sk LIKE '%#TAG#mark'"))
    result = CliRunner().invoke(main, ["--uri", f"dynamodb:///{path}", "doctor", "--json"])
    assert result.exit_code == FINDINGS, result.output
    assert [f["check"] for f in json.loads(result.stdout) if f["level"] == "failure"] == ["damage"]
