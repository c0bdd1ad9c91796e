"""Runs whose metrics are still in the log: moved, exported, counted, examined, cleaned up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Metric, Param, RunStatus, ViewType
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from mlflow_dynamodbstore.keys.metric_log import METRIC_LOG
from mlflow_dynamodbstore.shared.policies import METRIC_HISTORY_RETENTION, Policies
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.tracking import metric_log, sealing
from mlflow_dynamodbstore.tracking.log_entries import read_log
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.transfer.archive.file import Archive, write_archive
from mlflow_dynamodbstore.transfer.archive.fill import TableFill
from mlflow_dynamodbstore.transfer.archive.sources import TableSource
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from mlflow_dynamodbstore.upkeep.doctor import Doctor, Level
from mlflow_dynamodbstore.upkeep.table_stats import TableStats
from tests.sql import empty_database
from tests.stores import everything_in, open_tracking_store
from tests.table.fakes import FakeTime, patient_retry
from tests.transfer.sql.helpers import exported, imported

HOME = "0"


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def store(tmp_path: Path, time: FakeTime, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A store with runs of which some metrics are in segments, some in heads, some folded."""
    monkeypatch.setattr(metric_log, "SEGMENT_BYTES", 60)
    monkeypatch.setattr(metric_log, "SEGMENTS_BEFORE_FOLDING", 2)
    folder = tmp_path / "source"
    folder.mkdir()
    stores = [open_tracking_store(folder, time) for _ in range(2)]
    for number in range(4):
        run_id = stores[0].create_run(HOME, "u", 1, [], f"run {number}").info.run_id
        stores[0].log_param(run_id, Param("p", str(number)))
        for step in range(12):
            log(stores[step % 2], run_id, step)
        if number == 1:
            table, place = stores[0].table, stores[0].run_lookup.find_place(run_id)
            assert place is not None
            rules = Policies(table).sealing_rules()
            sealing.fold_log(table, place, read_log(table, place), rules)
            log(stores[0], run_id, 12)
        if number == 2:
            stores[0].delete_run(run_id)
        if number == 3:
            stores[1].update_run_info(run_id, RunStatus.FINISHED, 9, None)
            log(stores[0], run_id, 12)
    assert {"head", "latest"} <= {str(item["SK"]).split("#")[-1] for item in log_of(stores[0])}
    return stores[0]


def log(store: Any, run_id: str, step: int) -> None:
    points = [Metric("m", step / 2, 100 + step, step), Metric("loss", -float(step), 5, step)]
    store.log_batch(run_id, points, [], [])


def log_of(store: Any) -> list[Item]:
    found = [item for item in everything_in(store.table) if str(item["SK"]).startswith("LIVE#")]
    return sorted(found, key=lambda item: str(item["SK"]))


def shown(store: Any) -> dict[str, Any]:
    """All that a user sees of the metrics of all runs."""
    found: dict[str, Any] = {}
    for run in store.search_runs([HOME], "", ViewType.ALL, 50):
        run_id = run.info.run_id
        found[run.info.run_name] = (
            run.data.metrics,
            {
                key: [(m.step, m.timestamp, m.value) for m in store.get_metric_history(run_id, key)]
                for key in ("m", "loss")
            },
        )
    return found


def empty_table(folder: Path, time: FakeTime) -> Table:
    engine = open_engine(f"dynamodb:///{folder}/target.ddb?synchronous=NORMAL")
    return Table(engine, clock=time, retry=patient_retry(time))


def opened(table: Table) -> DynamoDBTrackingStore:
    return DynamoDBTrackingStore("", "s3://bucket/root", table=table)


def goes_on(store: Any) -> None:
    """A live run takes metrics, and ends with all that it had."""
    (run,) = store.search_runs([HOME], "params.p = '0'", ViewType.ALL, 5)
    before = shown(store)["run 0"]
    log(store, run.info.run_id, 100)
    store.update_run_info(run.info.run_id, RunStatus.FINISHED, 9, None)
    metrics, histories = shown(store)["run 0"]
    assert metrics == {"m": 50.0, "loss": -100.0}
    assert histories["m"] == [*before[1]["m"], (100, 200, 50.0)]


@pytest.mark.parametrize("how", ["dump", "copy"])
def test_a_moved_table_shows_and_takes_the_same(
    store: Any, time: FakeTime, tmp_path: Path, how: str
) -> None:
    target = empty_table(tmp_path, time)
    source: Archive | TableSource = TableSource(store.table)
    if how == "dump":
        path = tmp_path / "dump.gz"
        write_archive(path, source, store.table.schema, store.table.clock())
        source = Archive(path)
        source.check()
    TableFill(target, source).run()
    moved = opened(target)
    assert log_of(moved) == log_of(store)
    assert shown(moved) == shown(store)
    goes_on(moved)


def test_an_exported_database_shows_the_same_and_comes_back(
    store: Any, time: FakeTime, tmp_path: Path
) -> None:
    uri = empty_database(tmp_path)
    exported(store.table, uri)
    assert shown(SqlAlchemyStore(uri, str(tmp_path))) == shown(store)
    back = empty_table(tmp_path, time)
    imported(uri, back)
    assert log_of(opened(back)) == []
    assert shown(opened(back)) == shown(store)
    goes_on(opened(back))


def test_stats_count_the_log(store: Any, time: FakeTime) -> None:
    stats = TableStats(store.table.schema, time.now)
    stats.add(everything_in(store.table))
    log = log_of(store)
    assert stats.by_kind[METRIC_LOG].items == len(log)
    assert stats.by_kind[METRIC_LOG].expiring == sum("ttl" in item for item in log)
    assert stats.unknown == 0
    assert stats.unended == 0
    later = TableStats(store.table.schema, time.now + 30 * 24 * 3600)
    later.add(everything_in(store.table))
    assert later.unended == 2


def test_doctor_finds_the_log_in_order_and_damage_in_it(store: Any) -> None:
    def bad() -> list[str]:
        found = Doctor(store.table).examine()
        return [one.text for one in found if one.level in (Level.WARNING, Level.FAILURE)]

    assert bad() == []
    segment = next(item for item in log_of(store) if "entries" in item)
    store.table.put({**segment, "entries": b"\xc1damaged"})
    assert any(str(segment["SK"]) in text for text in bad())


def test_cleanup_leaves_what_nobody_folded(store: Any, time: FakeTime) -> None:
    before = shown(store)

    def sleep(seconds: float) -> None:
        time.now += seconds

    Cleanup(store.table, sleep=sleep).run()
    assert shown(store) == before
    goes_on(store)


def test_a_policy_of_histories_does_not_reach_into_the_log(store: Any, time: FakeTime) -> None:
    """Entries that nobody folded do not expire; once folded they do, by when they were logged."""
    (run,) = store.search_runs([HOME], "params.p = '0'", ViewType.ALL, 5)
    store.policies.set(METRIC_HISTORY_RETENTION, 1)
    time.now += 2 * 24 * 3600
    logged = read_log(store.table, store.run_lookup.find_place(run.info.run_id)).points()["m"]
    assert logged
    found = [m.step for m in store.get_metric_history(run.info.run_id, "m")]
    assert {point.step for point in logged} <= set(found)
    store.update_run_info(run.info.run_id, RunStatus.FINISHED, 9, None)
    left = {m.step for m in store.get_metric_history(run.info.run_id, "m")}
    assert not left & {point.step for point in logged}
    assert store.get_run(run.info.run_id).data.metrics == {"m": 5.5, "loss": -11.0}
