"""The metric log: what a call writes, and that no point is lost or doubled, whatever happens."""

from __future__ import annotations

import itertools
import math
import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Metric, Param, RunStatus, RunTag, ViewType
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.version import VERSION

from mlflow_dynamodbstore.keys import metric_log as log_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.policies import DAY
from mlflow_dynamodbstore.table.contract import Put, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.tracking import log_entries, metric_log, sealing
from mlflow_dynamodbstore.tracking.log_entries import Entry, entries_of
from mlflow_dynamodbstore.tracking.points import (
    Extent,
    Point,
    history_item,
    latest_item,
    merged_extent,
    order,
)
from mlflow_dynamodbstore.tracking.records import LIVE, LOGGING, SEALED
from mlflow_dynamodbstore.tracking.run_search.search import forced_path
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from tests.faults import CrashingEngine, FaultyEngine, SimulatedCrash, When
from tests.interleaving import at_every_moment, two_stores
from tests.places import items_in, partitions, run_place
from tests.sql import empty_database
from tests.table.fakes import FakeTime, patient_retry

HOME = "0"
LARGEST = 1.7976931348623157e308
ARTIFACTS = "s3://bucket/root"


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"dynamodb:///{tmp_path}/mlflow.ddb?synchronous=NORMAL"


def opened(uri: str, time: FakeTime, wrap: Any = lambda engine: engine) -> DynamoDBTrackingStore:
    """A store, as another process would have it."""
    table = Table(wrap(open_engine(uri)), clock=time, retry=patient_retry(time))
    return DynamoDBTrackingStore(uri, ARTIFACTS, table=table)


@pytest.fixture
def store(uri: str, time: FakeTime) -> DynamoDBTrackingStore:
    return opened(uri, time)


@pytest.fixture(params=["usual", "tiny"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments as they are, and so small that every few calls are folded."""
    if request.param == "tiny":
        make_tiny(monkeypatch)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    make_tiny(monkeypatch)


def make_tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_log, "SEGMENT_BYTES", 60)
    monkeypatch.setattr(metric_log, "SEGMENTS_BEFORE_FOLDING", 2)
    monkeypatch.setattr(log_entries, "LOGS_AT_ONCE", 2)


def new_run(store: Any) -> str:
    run_id: str = store.create_run(HOME, "u", 1, [RunTag("t", "1")], "n").info.run_id
    return run_id


def log(store: Any, run_id: str, step: int, **values: float) -> None:
    store.log_batch(run_id, [Metric(k, v, 100 + step, step) for k, v in values.items()], [], [])


def end(store: Any, run_id: str) -> None:
    store.update_run_info(run_id, RunStatus.FINISHED, 9, None)


def sort_keys(store: Any, within: Range) -> list[str]:
    return [found["SK"] for found in items_in(store.table, HOME, within)]


def own(store: Any, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = store.table.get(run_place(run_id).key)
    return found


def steps_of(store: Any, run_id: str, key: str) -> list[int]:
    whole = [m.step for m in store.get_metric_history(run_id, key)]
    paged, token = [], None
    while True:
        page = store.get_metric_history(run_id, key, 3, token)
        paged += [m.step for m in page]
        token = page.token
        if not token:
            break
    assert paged == whole
    most = store.get_metric_history_bulk_interval([run_id], key, 10_000, None, None)
    assert [m.step for m in most] == sorted(whole)
    return whole


def check(store: Any, run_id: str, key: str, steps: list[int], value: float | None = None) -> None:
    """A history has each point once, and every way to the run shows the latest value."""
    assert steps_of(store, run_id, key) == steps
    assert store.get_max_step_for_metric(run_id, key) == (max(steps) if steps else 0)
    if not steps:
        return
    latest = store.get_run(run_id).data.metrics[key]
    assert value is None or latest == value
    for path, filter_string in (
        ("ByTime", ""),
        ("ByPartition", ""),
        ("ByMetric", f"metrics.{key} = {latest}"),
    ):
        token = forced_path.set(path)
        found = store.search_runs([HOME], filter_string, ViewType.ALL, 50)
        forced_path.reset(token)
        shown = [r.data.metrics[key] for r in found if r.info.run_id == run_id]
        assert shown == [latest], path


# --- what a call writes ---------------------------------------------------------------------------


def test_a_call_writes_one_item_and_reads_one(uri: str, time: FakeTime) -> None:
    """However many metrics it has; nothing else is read or compared."""
    engine = MeteredEngine(open_engine(uri))
    store = DynamoDBTrackingStore(uri, ARTIFACTS, table=Table(engine, clock=time))
    run_id = new_run(store)
    log(store, run_id, 0, **{f"m{n}": 0.5 for n in range(10)})
    engine.meter.reset()
    log(store, run_id, 1, **{f"m{n}": 1.5 for n in range(10)})
    assert engine.meter.write_units == 1
    assert sum(engine.meter.requests.values()) == 2
    assert own(store, run_id)["state"] == LIVE


def test_a_thousand_calls_cost_little_more_than_a_unit_each(uri: str, time: FakeTime) -> None:
    engine = MeteredEngine(open_engine(uri))
    store = DynamoDBTrackingStore(uri, ARTIFACTS, table=Table(engine, clock=time))
    run_id, calls = new_run(store), 1000
    engine.meter.reset()
    rng = random.Random(1)
    for step in range(calls):
        log(store, run_id, step, **{f"metric_{n}": rng.random() for n in range(10)})
    end(store, run_id)
    assert engine.meter.write_units / calls <= 1.6
    assert sum(engine.meter.requests.values()) / calls <= 2.2
    held = sum(
        len(str(item["SK"])) + len(item.get("points", b"")) + 30
        for item in items_in(store.table, HOME, run_keys.run_history(run_id))
    )
    assert held < 150_000
    assert len(store.get_metric_history(run_id, "metric_3")) == calls


def test_a_call_too_large_for_an_item_is_several(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metric_log, "LARGEST_ENTRY", 50_000)
    run_id = new_run(store)
    rng, letters = random.Random(2), "abcdefghijklmnopqrstuvwxyz0123456789_-"
    noise = ("".join(rng.choices(letters, k=240)) for _ in range(1000))
    metrics = [Metric(f"{n}{text}", n / 7, 5, 5) for n, text in enumerate(noise)]
    store.log_batch(run_id, metrics, [], [])
    assert len(sort_keys(store, log_keys.run_log(run_id))) > 1
    expected = {m.key: m.value for m in metrics}
    assert store.get_run(run_id).data.metrics == expected
    end(store, run_id)
    assert store.get_run(run_id).data.metrics == expected


@pytest.mark.usefixtures("sizes")
def test_a_run_reads_the_same_live_folded_and_ended(store: Any, uri: str, time: FakeTime) -> None:
    run_id = new_run(store)
    for step in range(40):
        log(store, run_id, step, a=step / 2, b=-float(step))
        if step % 13 == 0:
            check(opened(uri, time), run_id, "a", list(range(step + 1)), step / 2)
    end(store, run_id)
    assert own(store, run_id)["state"] == SEALED
    check(opened(uri, time), run_id, "a", list(range(40)), 19.5)
    assert len(sort_keys(store, log_keys.run_log(run_id))) <= 2
    time.now += sealing.READER_SECONDS + 1
    assert sort_keys(store, log_keys.run_log(run_id)) == []
    assert sort_keys(store, run_keys.run_metrics(run_id)) == [
        run_keys.run_metric(run_id, key) for key in ("a", "b")
    ]


def test_slots_are_used_again(store: Any, tiny: None) -> None:
    run_id = new_run(store)
    for step in range(200):
        log(store, run_id, step, a=0.5)
    assert len(sort_keys(store, log_keys.run_log(run_id))) < 8
    check(store, run_id, "a", list(range(200)), 0.5)


def test_odd_values_come_back_bit_for_bit(store: Any) -> None:
    run_id = new_run(store)
    values = [math.inf, -math.inf, math.nan, 1e300, 5e-324, -0.0, 1.7976931348623157e308]
    for step, value in enumerate(values):
        log(store, run_id, step, m=value)
    for _ in range(2):
        found = [m.value for m in store.get_metric_history(run_id, "m")]
        assert [x.hex() for x in found] == [x.hex() for x in values]
        end(store, run_id)


# --- metrics do not reopen a run ------------------------------------------------------------------


def test_a_run_carries_its_summary_while_metrics_arrive(store: Any, time: FakeTime) -> None:
    run_id = new_run(store)
    store.log_param(run_id, Param("p", "x"))
    log(store, run_id, 0, m=0.0)
    time.now += sealing.REST_BEFORE_SEALING + 1
    store.search_runs([HOME], "", ViewType.ALL, 5)
    assert own(store, run_id)["state"] == LOGGING
    log(store, run_id, 1, m=1.0)
    assert own(store, run_id)["state"] == LOGGING
    check(store, run_id, "m", [0, 1], 1.0)
    store.set_tag(run_id, RunTag("t", "2"))
    assert own(store, run_id)["state"] == LIVE
    assert store.get_run(run_id).data.tags["t"] == "2"
    check(store, run_id, "m", [0, 1], 1.0)


def test_readers_of_a_live_run_hardly_write(uri: str, store: Any, time: FakeTime) -> None:
    """At most once in ten seconds, however often they read: here a thousand times."""
    run_id = new_run(store)
    engine = MeteredEngine(open_engine(uri))
    reader = DynamoDBTrackingStore(uri, ARTIFACTS, table=Table(engine, clock=time))
    writes = []
    for step in range(500):
        log(store, run_id, step, m=float(step))
        before = engine.meter.write_units
        assert reader.get_run(run_id).data.metrics["m"] == step
        assert reader.search_runs([HOME], "", ViewType.ALL, 5)[0].data.metrics["m"] == step
        if engine.meter.write_units > before:
            writes.append(time.now)
        time.now += 1
    assert len(writes) <= 1 + 500 / sealing.REST_BEFORE_SEALING
    assert all(b - a >= sealing.REST_BEFORE_SEALING for a, b in itertools.pairwise(writes))
    assert len(writes) == 1  # it is summarised once, and metrics do not undo that


def test_half_of_a_hundred_runs_are_live_in_few_requests(uri: str, time: FakeTime) -> None:
    store = opened(uri, time)
    for n in range(100):
        run_id = new_run(store)
        store.log_batch(run_id, [Metric("m", float(n), 1, 1)], [Param("p", str(n))], [])
        if n % 2:
            end(store, run_id)
    time.now += sealing.REST_BEFORE_SEALING + 1
    assert len(store.search_runs([HOME], "", ViewType.ALL, 100)) == 100
    engine = MeteredEngine(open_engine(uri))
    reader = DynamoDBTrackingStore(uri, ARTIFACTS, table=Table(engine, clock=time))
    reader.search_runs([HOME], "metrics.m > -1", ViewType.ALL, 100)  # reads the settings
    for filter_string, order_by in (("", []), ("metrics.m >= 0", ["metrics.m DESC"])):
        engine.meter.reset()
        found = reader.search_runs([HOME], filter_string, ViewType.ALL, 100, order_by)
        assert len(found) == 100
        assert sum(engine.meter.requests.values()) <= 5 * len(partitions(store.table, HOME))


def test_a_metric_after_the_end_is_seen_at_once(store: Any, uri: str, time: FakeTime) -> None:
    run_id = new_run(store)
    log(store, run_id, 1, m=1.0)
    end(store, run_id)
    log(store, run_id, 2, m=2.0)
    log(store, run_id, 0, m=7.0)
    check(opened(uri, time), run_id, "m", [0, 1, 2], 2.0)
    time.now += sealing.REST_BEFORE_SEALING + 1
    opened(uri, time).search_runs([HOME], "", ViewType.ALL, 5)
    assert own(store, run_id)["state"] == SEALED
    check(store, run_id, "m", [0, 1, 2], 2.0)


def test_a_run_that_nobody_ended_is_sealed_after_an_hour(store: Any, time: FakeTime) -> None:
    run_id = new_run(store)
    log(store, run_id, 1, m=1.0)
    time.now += sealing.IDLE_BEFORE_SEALING / 2
    log(store, run_id, 2, m=2.0)
    time.now += sealing.IDLE_BEFORE_SEALING / 2 + 11
    store.search_runs([HOME], "", ViewType.ALL, 5)
    assert own(store, run_id)["state"] == LOGGING, "it has logged within the hour"
    time.now += sealing.IDLE_BEFORE_SEALING
    store.search_runs([HOME], "", ViewType.ALL, 5)
    assert own(store, run_id)["state"] == SEALED
    check(store, run_id, "m", [1, 2], 2.0)


def test_a_long_log_of_many_writers_is_folded_by_who_reads_it(
    store: Any, uri: str, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "LONG_LOG", 5)
    run_id = new_run(store)
    for step in range(8):
        log(opened(uri, time), run_id, step, m=float(step))
    assert len(sort_keys(store, log_keys.run_log(run_id))) == 8
    store.search_runs([HOME], "", ViewType.ALL, 5)
    assert sort_keys(store, log_keys.run_log(run_id)) == [log_keys.log_latest(run_id)]
    check(store, run_id, "m", list(range(8)), 7.0)
    log(store, run_id, 8, m=8.0)
    end(store, run_id)
    check(store, run_id, "m", list(range(9)), 8.0)


# --- several writers ------------------------------------------------------------------------------


def test_threads_of_a_process_share_a_log(store: Any, sizes: None) -> None:
    run_id, count = new_run(store), 25
    errors: list[BaseException] = []

    def work(thread: int) -> None:
        try:
            for n in range(count):
                log(store, run_id, n * 8 + thread, m=float(n), **{f"t{thread}": float(n)})
        except BaseException as error:  # noqa: BLE001 - told to the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    check(store, run_id, "m", list(range(8 * count)))
    end(store, run_id)
    check(store, run_id, "m", list(range(8 * count)), float(count - 1))
    assert all(len(store.get_metric_history(run_id, f"t{n}")) == count for n in range(8))


@pytest.mark.usefixtures("tiny")
def test_a_child_process_is_another_writer(store: Any, uri: str, time: FakeTime) -> None:
    """It has the memory of its parent, but must not write to its parent's slots."""
    run_id = new_run(store)
    log(store, run_id, 0, m=0.0)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for step in range(1, 30, 2):
                log(store, run_id, step, m=float(step))
            code = 0
        finally:
            os._exit(code)
    for step in range(2, 30, 2):
        log(store, run_id, step, m=float(step))
    assert os.waitpid(child, 0)[1] == 0
    check(opened(uri, time), run_id, "m", list(range(30)), 29.0)


def test_a_put_that_comes_late_does_not_undo_a_later_one(
    store: Any, uri: str, time: FakeTime
) -> None:
    """A request that timed out may be applied after the slot holds newer calls."""
    run_id = new_run(store)
    log(store, run_id, 0, m=0.0)
    (segment,) = items_in(store.table, HOME, log_keys.run_log(run_id))
    log(store, run_id, 1, m=1.0)
    late = Put(segment, metric_log._is_newer(segment[log_entries.VERSION]))
    assert store.table.write([late])[0].status == "refused"
    check(opened(uri, time), run_id, "m", [0, 1], 1.0)


@pytest.mark.usefixtures("tiny")
def test_a_reader_that_is_overtaken_by_the_end_of_a_run_misses_nothing(tmp_path: Path) -> None:
    """The run is read while it is live, and its log after it was folded and removed."""
    two = two_stores(tmp_path)
    reader, writer = two.first, two.second
    for calls in (1, 12):
        run_id = new_run(writer)
        for step in range(calls):
            log(writer, run_id, step, m=float(step), **{f"k{step}": 0.5})
        for _ in at_every_moment(two, partial(end, writer, run_id)):
            shown = reader.get_run(run_id).data.metrics
            assert shown["m"] == calls - 1
            assert len(shown) == calls + 1
            writer.update_run_info(run_id, RunStatus.RUNNING, None, None)
            log(writer, run_id, calls, k0=0.5)
        for _ in at_every_moment(two, partial(end, writer, run_id)):
            assert [m.step for m in reader.get_metric_history(run_id, "m")] == list(range(calls))
            writer.update_run_info(run_id, RunStatus.RUNNING, None, None)
            log(writer, run_id, calls, k0=0.5)


@pytest.mark.usefixtures("tiny")
def test_a_reader_that_is_overtaken_by_folding_misses_nothing(tmp_path: Path) -> None:
    two = two_stores(tmp_path)
    reader, writer = two.first, two.second
    run_id = new_run(writer)
    log(writer, run_id, 0, only_once=0.5)
    steps = itertools.count(0)

    def some_calls() -> None:
        for _ in range(9):
            step = next(steps)
            log(writer, run_id, step, m=float(step))

    some_calls()
    for _ in range(6):
        for _ in at_every_moment(two, some_calls):
            before = next(steps)
            log(writer, run_id, before, m=float(before))
            shown = reader.get_run(run_id).data.metrics
            assert shown["only_once"] == 0.5
            assert shown["m"] >= before
        for _ in at_every_moment(two, some_calls):
            before = next(steps)
            log(writer, run_id, before, m=float(before))
            found = [m.step for m in reader.get_metric_history(run_id, "m")]
            assert found == list(range(len(found)))
            assert len(found) > before


# --- a deleted run --------------------------------------------------------------------------------


@pytest.mark.usefixtures("sizes")
def test_points_refused_by_a_deleted_run_are_taken_back(
    store: Any, uri: str, time: FakeTime
) -> None:
    run_id = new_run(store)
    for step in range(5):
        log(store, run_id, step, m=float(step))
    opened(uri, time).delete_run(run_id)
    for step in range(5, 8):
        with pytest.raises(MlflowException, match="must be in the 'active' state"):
            log(store, run_id, step, m=float(step), other=1.0)
    store.restore_run(run_id)
    check(store, run_id, "m", list(range(5)), 4.0)
    assert "other" not in store.get_run(run_id).data.metrics
    log(store, run_id, 5, m=5.0)
    end(store, run_id)
    check(store, run_id, "m", list(range(6)), 5.0)


@pytest.mark.usefixtures("sizes")
def test_the_log_of_a_deleted_run_expires_with_it_and_is_restored_with_it(
    store: Any, time: FakeTime
) -> None:
    run_id = new_run(store)
    for step in range(9):
        log(store, run_id, step, m=float(step))
    store.delete_run(run_id)
    logged = Query(run_place(run_id).pk, log_keys.run_log(run_id).on())
    assert all(item["ttl"] == int(time.now) + 90 * DAY for item in store.table.items(logged))
    assert store.get_run(run_id).data.metrics == {"m": 8.0}
    store.restore_run(run_id)
    assert not any("ttl" in item for item in store.table.items(logged))
    end(store, run_id)
    check(store, run_id, "m", list(range(9)), 8.0)
    store.delete_run(run_id)
    store._hard_delete_run(run_id)
    assert sort_keys(store, Range("LIVE#", "LIVE$")) == []


def test_removing_a_live_run_for_good_removes_its_log(store: Any) -> None:
    run_id = new_run(store)
    log(store, run_id, 0, m=1.0)
    store.delete_run(run_id)
    store._hard_delete_run(run_id)
    assert sort_keys(store, Range("LIVE#", "LIVE$")) == []


# --- expiry, upkeep, tables of before -------------------------------------------------------------


def test_history_expires_by_the_day_it_was_logged(store: Any, time: FakeTime) -> None:
    run_id = new_run(store)
    for step in range(3):
        log(store, run_id, step, m=float(step))
        time.now += 100 * DAY
    time.now += 100 * DAY
    assert steps_of(store, run_id, "m") == [0, 1, 2], "what is not folded does not expire"
    end(store, run_id)
    assert steps_of(store, run_id, "m") == [1, 2]
    assert store.get_run(run_id).data.metrics == {"m": 2.0}


def test_cleanup_removes_what_a_crash_left_in_the_log(store: Any, time: FakeTime) -> None:
    run_id, other = new_run(store), new_run(store)
    log(store, run_id, 0, m=0.0)
    log(store, other, 0, m=0.0)
    (segment,) = items_in(store.table, HOME, log_keys.run_log(run_id))
    end(store, run_id)
    store.table.put({**segment, "SK": log_keys.log_segment(run_id, "00000000", 0)})
    time.now += 2 * 3600
    Cleanup(store.table, sleep=lambda seconds: setattr(time, "now", time.now + seconds)).run()
    assert sort_keys(store, log_keys.run_log(run_id)) == []
    check(store, other, "m", [0], 0.0)


def test_a_live_run_of_before_is_read_and_folded(store: Any) -> None:
    """Then each point was an item of the history, and latest values were written at once."""
    run_id = new_run(store)
    place = store.run_lookup.find_place(run_id)
    points = [Point(n, n, float(n)) for n in range(5)]
    for point in points:
        store.table.put(history_item(place, "m", [point], None))
    latest = Extent((0, 0), points[-1], in_order=True)
    store.table.put(latest_item(place, "m", latest))
    history = Query(place.pk, run_keys.metric_history(run_id, "m").on())
    before = list(store.table.items(history))
    check(store, run_id, "m", list(range(5)), 4.0)
    log(store, run_id, 5, m=5.0)
    check(store, run_id, "m", list(range(6)), 5.0)
    end(store, run_id)
    check(store, run_id, "m", list(range(6)), 5.0)
    log(store, run_id, 6, m=6.0)
    end(store, run_id)
    check(store, run_id, "m", list(range(7)), 6.0)
    assert list(store.table.items(history))[:5] == before, "what was there stays as it was"
    assert "disordered" not in store.table.get(Key(place.pk, run_keys.run_metric(run_id, "m")))


def test_an_ended_run_of_before_takes_metrics(store: Any, uri: str, time: FakeTime) -> None:
    """It is sealed, and has rows and a summary but never had a log."""
    run_id = new_run(store)
    place = store.run_lookup.find_place(run_id)
    store.table.put(history_item(place, "m", [Point(0, 0, 0.5)], None))
    store.table.put(latest_item(place, "m", Extent((0, 0), Point(0, 0, 0.5), in_order=True)))
    end(store, run_id)
    check(store, run_id, "m", [0], 0.5)
    log(opened(uri, time), run_id, 1, m=1.5)
    check(store, run_id, "m", [0, 1], 1.5)
    time.now += sealing.REST_BEFORE_SEALING + 1
    store.search_runs([HOME], "", ViewType.ALL, 5)
    assert own(store, run_id)["state"] == SEALED
    check(store, run_id, "m", [0, 1], 1.5)


# --- crashes and faults ---------------------------------------------------------------------------


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("when", ["before", "during", "after"])
@pytest.mark.parametrize("options", ["", "&index_lag=5"])
def test_a_crash_at_any_request_loses_no_point(
    tmp_path: Path, time: FakeTime, when: When, options: str
) -> None:
    """Die at every write of appending, folding and ending in turn."""
    for at in itertools.count(1):
        uri = f"dynamodb:///{tmp_path}/{at}.ddb?synchronous=NORMAL{options}"
        run_id = new_run(opened(uri, time))
        crashing = opened(uri, time, lambda e, n=at: CrashingEngine(e, at=n, when=when))
        done: list[int] = []
        try:
            for step in range(10):
                log(crashing, run_id, step, m=float(step))
                done.append(step)
            end(crashing, run_id)
            log(crashing, run_id, 10, m=10.0)
            done.append(10)
            end(crashing, run_id)
        except SimulatedCrash:
            survivor = opened(uri, time)
            found = steps_of(survivor, run_id, "m")
            assert found in (done, [*done, len(done)])
            check(survivor, run_id, "m", found)
            log(survivor, run_id, len(done), m=float(len(done)))  # the client tries again
            end(survivor, run_id)
            check(survivor, run_id, "m", [*done, len(done)])
        else:
            assert at > 12, "the walk must have met many writes"
            return


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("seed", range(6))
def test_lost_answers_and_throttling_lose_and_double_nothing(
    uri: str, time: FakeTime, seed: int
) -> None:
    rng = random.Random(seed)
    run_id = new_run(opened(uri, time))
    engines = []

    def faulty(engine: Any) -> Any:
        engines.append(
            FaultyEngine(engine, timeout_before=0.15, timeout_after=0.15, conflict=0.1, rng=rng)
        )
        return engines[-1]

    stores = [opened(uri, time, faulty) for _ in range(2)]
    sure: set[int] = set()
    tried: set[int] = set()
    for step in range(60):
        store = rng.choice(stores)
        tried.add(step)
        try:
            log(store, run_id, step, m=float(step))
            sure.add(step)
            if step % 17 == 16:
                end(store, run_id)
        except MlflowException:
            continue
    assert sum(sum(engine.injected.values()) for engine in engines) > 50
    reader = opened(uri, time)
    found = steps_of(reader, run_id, "m")
    assert sure <= set(found) <= tried
    assert len(found) == len(set(found))
    check(reader, run_id, "m", found, float(max(found)))
    end(reader, run_id)
    check(opened(uri, time), run_id, "m", found, float(max(found)))


# --- against MLflow's own store -------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_several_writers_agree_with_mlflows_store(
    tmp_path: Path, time: FakeTime, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Points out of order, repeated, at equal steps and odd values, from three writers."""
    rng = random.Random(seed)
    if seed % 2:
        make_tiny(monkeypatch)
    uri = f"dynamodb:///{tmp_path}/ours.ddb?synchronous=NORMAL"
    stores = [opened(uri, time) for _ in range(3)]
    theirs = SqlAlchemyStore(empty_database(tmp_path), str(tmp_path))
    ours_id = new_run(stores[0])
    their_id = theirs.create_run("0", "u", 1, [], "n").info.run_id
    values = [0.0, -0.0, 1.5, -2.0, math.nan, 1e300, math.inf, -math.inf]
    for _ in range(60):
        kind, store = rng.random(), rng.choice(stores)
        if kind < 0.8:
            batch = [
                Metric(
                    rng.choice("abc"), rng.choice(values), rng.randrange(20), rng.randrange(-3, 9)
                )
                for _ in range(rng.choice([1, 2, 3, 4, 5, 1000 if seed == 7 else 5]))
            ]
            store.log_batch(ours_id, batch, [], [])
            try:
                theirs.log_batch(their_id, batch, [], [])
            except MlflowException as error:
                if "UNIQUE constraint" not in error.message:
                    raise
                pytest.skip(f"MLflow {VERSION} refuses a call with equal points itself")
        elif kind < 0.9:
            status = rng.choice([RunStatus.FINISHED, RunStatus.RUNNING])
            store.update_run_info(ours_id, status, 5, None)
            theirs.update_run_info(their_id, status, 5, None)
        else:
            time.now += 11
            store.search_runs([HOME], "", ViewType.ALL, 5)
        if rng.random() < 0.2:
            _compare(rng.choice(stores), ours_id, theirs, their_id)
    _compare(stores[0], ours_id, theirs, their_id)
    end(stores[1], ours_id)
    _compare(stores[2], ours_id, theirs, their_id)


def _compare(ours: Any, ours_id: str, theirs: Any, their_id: str) -> None:
    mine, its = ours.get_run(ours_id).data.metrics, theirs.get_run(their_id).data.metrics
    assert {k: _value(v) for k, v in mine.items()} == {k: _value(v) for k, v in its.items()}
    for key in "abc":
        assert _points(ours, ours_id, key) == _points(theirs, their_id, key)
        mine, its = (
            [
                (m.step, m.timestamp, _value(m.value))
                for m in s.get_metric_history_bulk_interval([r], key, 7, None, None)
            ]
            for s, r in ((ours, ours_id), (theirs, their_id))
        )
        assert [one[:2] for one in mine] == [one[:2] for one in its]


def _points(store: Any, run_id: str, key: str) -> Counter[tuple[int, int, str]]:
    found = store.get_metric_history(run_id, key)
    return Counter((m.step, m.timestamp, _value(m.value)) for m in found)


def _value(value: float) -> str:
    """A value as both stores show it: SQL has no -0.0, and the largest number for infinity."""
    return repr(max(-LARGEST, min(LARGEST, value)) + 0.0)


# --- entries --------------------------------------------------------------------------------------


def test_entries_are_read_back_as_they_were() -> None:
    rng = random.Random(5)
    before, packed, made = None, b"", []
    for n in range(200):
        points = {
            f"k{rng.randrange(4)}": [
                Point(rng.randrange(-9, 9), rng.randrange(99), rng.random())
                for _ in range(rng.choice([1, 1, 1, 400]))
            ]
            for _ in range(rng.randrange(1, 4))
        }
        entry = Entry.of(n, points)
        packed += entry.packed(before)
        before = entry.keys
        made.append([(key, point) for key, some in points.items() for point in some])
    assert [list(entry.points()) for entry in entries_of(packed)] == made


def test_an_extent_is_that_of_all_points_however_they_are_divided() -> None:
    points = [Point(n, n * 2, float(-n)) for n in range(30)]
    parts = [points[a:b] for a, b in ((0, 4), (4, 5), (5, 20), (20, 30))]
    for some in itertools.permutations(parts):
        extents = [Extent((p[0].step, p[0].timestamp), p[-1], in_order=True) for p in some]
        assert merged_extent(extents) == Extent((0, 0), points[-1], in_order=True)
    late = Extent((3, 500), Point(3, 500, 1.0), in_order=True)
    whole = merged_extent([late, Extent((0, 0), points[-1], in_order=True)])
    assert not whole.in_order
    assert order(whole.top) == order(points[-1])


@pytest.fixture(autouse=True)
def _no_path_is_forced() -> Iterator[None]:
    yield
    assert forced_path.get() is None
