"""Rows that only releases of long ago have written, and values at the edges."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from mlflow.entities import Metric, Param, ViewType

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.transfer.sql.database import Database
from tests.sql import empty_database
from tests.traces.making import NOON
from tests.transfer.sql.helpers import exported, imported, stores
from tests.transfer.sql.mlflow_database import Theirs
from tests.transfer.sql.test_round_trip import rows

pytestmark = pytest.mark.index_at_once

OLD = (
    "UPDATE experiments SET creation_time = NULL, last_update_time = NULL WHERE experiment_id = 2",
    "UPDATE runs SET source_type = 'LOCAL', source_name = 'train.py' WHERE name = 'run 1'",
    "UPDATE runs SET entry_point_name = 'main', source_version = 'abc' WHERE name = 'run 1'",
    "UPDATE runs SET source_type = NULL, source_name = NULL WHERE name = 'run 2'",
    "UPDATE model_versions SET storage_location = NULL WHERE name = 'iris'",
)


@pytest.fixture
def old(source: Theirs) -> Theirs:
    database = Database.to_read(source.uri)
    with database.transaction() as transaction:
        for statement in OLD:
            transaction.connection.execute(sa.text(statement))
    database.close()
    return source


def test_old_rows_come_back_as_they_were(old: Theirs, table, tmp_path):
    assert imported(old.uri, table).findings.first == []
    target = empty_database(tmp_path)
    assert exported(table, target).findings.first == []
    before, after = rows(old.uri), rows(target)
    assert [name for name in before if before[name] != after[name]] == ["model_versions"]
    ours, theirs = stores(table)[1], old.registry
    place = ("iris", "1")
    assert ours.get_model_version_download_uri(*place) == theirs.get_model_version_download_uri(
        *place
    )


def test_experiments_without_times_are_found_and_sorted(old: Theirs, table):
    imported(old.uri, table)
    tracking, _ = stores(table)
    for order in ("creation_time ASC", "last_update_time DESC", "name ASC"):
        found = tracking.search_experiments(ViewType.ALL, order_by=[order])
        expected = old.tracking.search_experiments(ViewType.ALL, order_by=[order])
        assert {e.experiment_id for e in found} == {e.experiment_id for e in expected}


def test_a_name_that_only_a_tag_knows_is_the_runs_name(source: Theirs, table):
    database = Database.to_read(source.uri)
    with database.transaction() as transaction:
        transaction.connection.execute(sa.text("UPDATE runs SET name = NULL WHERE name = 'run 1'"))
    imported(source.uri, table)
    tracking, _ = stores(table)
    (run,) = tracking.search_runs(["1"], "attributes.run_name = 'run 1'", ViewType.ALL, 10)
    assert source.tracking.get_run(run.info.run_id).info.run_name == "run 1"


NAMES = st.sampled_from(["a", "b/c", "x y", "ż", "n" * 250])
VALUES = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0])
POINTS = st.builds(Metric, NAMES, VALUES, st.integers(0, 3), st.integers(-2, 2))
WHOLE = st.integers(-(2**63), 2**63 - 1)
FAR = st.builds(Metric, NAMES, VALUES, st.integers(0, 2**63 - 1), WHOLE)
PARAMS = st.dictionaries(NAMES, st.text(st.characters(codec="utf-8", exclude_characters="\0")))


class Lasting(NamedTuple):
    """What is moved to and fro, with a run more each time."""

    theirs: Theirs
    table: Table
    target: str


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lasting]:
    folder = tmp_path_factory.mktemp("lasting")
    (folder / "back").mkdir()
    table = Table(open_engine(f"dynamodb:///{folder}/mlflow.ddb?synchronous=NORMAL"))
    yield Lasting(Theirs(empty_database(folder)), table, empty_database(folder / "back"))
    table.close()


@pytest.mark.hypothesis
@given(st.lists(POINTS | FAR, max_size=30), PARAMS)
@settings(max_examples=settings().max_examples // 10)
def test_any_run_answers_as_it_did_and_comes_back(lasting: Lasting, points, params):
    theirs, table, target = lasting
    run_id = theirs.tracking.create_run("0", "ada", NOON, [], None).info.run_id
    theirs.tracking.log_batch(run_id, points, [Param(k, v) for k, v in params.items()], [])
    assert imported(theirs.uri, table).findings.first == []
    tracking, _ = stores(table)
    for name in {point.key for point in points}:
        assert history(tracking, run_id, name) == history(theirs.tracking, run_id, name)
    assert tracking.get_run(run_id).data.params == params
    assert exported(table, target).findings.first == []
    before, after = (
        rows(uri, ("runs", "params", "latest_metrics", "metrics")) for uri in (theirs.uri, target)
    )
    assert after == before


def history(store, run_id: str, name: str) -> list[tuple[str, int, int]]:
    points = store.get_metric_history(run_id, name)
    return [(repr(point.value + 0.0), point.timestamp, point.step) for point in points]
