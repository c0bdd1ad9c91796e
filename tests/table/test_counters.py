"""Counters: by operation, in total and by period, in one process and in all of a server."""

from __future__ import annotations

import os
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mlflow.entities import Metric
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.shared import counter_files
from mlflow_dynamodbstore.shared.counter_files import CounterFiles
from mlflow_dynamodbstore.table import counters as module
from mlflow_dynamodbstore.table.counters import (
    CALLS,
    COUNTERS,
    ERRORS,
    HITS,
    MEANINGS,
    READ_UNITS,
    REQUESTS,
    SECONDS,
    THROTTLES,
    WRITE_UNITS,
    Counted,
    Counters,
)
from mlflow_dynamodbstore.table.heat import Heat, Partition, PartitionCounters
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.engines import dynoxide_server, find_dynoxide
from tests.table.fakes import FakeTime


@pytest.fixture
def time() -> FakeTime:
    return FakeTime(3_000_000.0)


@pytest.fixture
def counters(time: FakeTime) -> Counters:
    return Counters(clock=time)


def test_a_call_counts_for_its_operation_and_not_for_the_one_inside_it(counters: Counters):
    with counters.call("log_batch"):
        counters.add(REQUESTS, request="Query")
        with counters.call("get_run"):
            counters.add(REQUESTS, request="GetItem")
    found = counters.totals()
    assert found[Counted(CALLS, "log_batch")] == 1
    assert found[Counted(REQUESTS, "log_batch", "Query")] == 1
    assert found[Counted(REQUESTS, "log_batch", "GetItem")] == 1
    assert Counted(CALLS, "get_run") not in found


def test_a_call_that_fails_is_an_error_and_the_next_counts_for_itself(counters: Counters):
    with pytest.raises(ValueError), counters.call("get_run"):
        raise ValueError
    counters.add(REQUESTS, request="Scan")
    found = counters.totals()
    assert found[Counted(ERRORS, "get_run")] == found[Counted(CALLS, "get_run")] == 1
    assert found[Counted(REQUESTS, "none", "Scan")] == 1


def test_periods_hold_what_was_counted_in_them_and_totals_hold_all(
    counters: Counters, time: FakeTime
):
    for _ in range(3):
        counters.add(REQUESTS, operation="a")
        time.now += 300
    counters.add(REQUESTS, operation="a", amount=5)
    assert [period.counts for period in counters.periods()] == [
        *[{Counted(REQUESTS, "a"): 1}] * 3,
        {Counted(REQUESTS, "a"): 5},
    ]
    assert counters.totals() == {Counted(REQUESTS, "a"): 8}
    assert len(counters.periods(hours=0.1)) == 3  # the last one, and those that reach into it


def test_periods_without_a_call_are_periods_too(counters: Counters, time: FakeTime):
    """Else a rate would be that of the busy hours, and a plot would bridge the idle ones."""
    time.now += 10
    counters.add(REQUESTS, operation="a")
    time.now += 3 * 300
    counters.add(REQUESTS, operation="a")
    found = [(one.start, one.seconds, len(one.counts)) for one in counters.periods()]
    assert found == [
        (3_000_000.0, 300.0, 1),
        (3_000_300.0, 300, 0),
        (3_000_600.0, 300, 0),
        (3_000_900.0, 10.0, 1),
    ]
    time.now += 10 * 24 * 3600
    found = [(one.start, one.seconds, len(one.counts)) for one in counters.periods(hours=1_000)]
    assert len(found) == module.PERIODS_KEPT + 1
    assert {(seconds, counts) for _, seconds, counts in found} == {(300, 0), (10.0, 0)}
    assert counters.totals() == {Counted(REQUESTS, "a"): 2}


def test_a_day_is_kept_and_no_more(counters: Counters, time: FakeTime):
    for _ in range(400):
        counters.add(REQUESTS, operation="a")
        time.now += 300
    assert len(counters.periods(hours=1_000)) == module.PERIODS_KEPT + 1
    assert counters.totals() == {Counted(REQUESTS, "a"): 400}


def test_threads_lose_no_count(counters: Counters):
    def work() -> None:
        for _ in range(2_000):
            counters.add(REQUESTS, operation="a")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters.totals() == {Counted(REQUESTS, "a"): 16_000}


def test_a_run_is_live_until_it_ends_or_rests(counters: Counters, time: FakeTime):
    for run in ("a", "b", "c"):
        counters.run_written(run)
    counters.run_ended("b")
    assert counters.live_runs() == ["a", "c"]
    time.now += module.LIVE_SECONDS
    counters.run_written("c")
    time.now += 1
    assert counters.live_runs() == ["c"]


def test_a_child_begins_at_nothing():
    COUNTERS.add(REQUESTS, operation="of the parent")
    child = os.fork()
    if child == 0:
        os._exit(len(COUNTERS.totals()))
    assert os.waitpid(child, 0)[1] == 0


def test_files_of_several_processes_are_added_up(tmp_path: Path, time: FakeTime):
    mine, other = Counters(clock=time), Counters(clock=time)
    mine.add(REQUESTS, operation="a", amount=2)
    other.add(REQUESTS, operation="a", amount=3)
    for run, counters in (("one", mine), ("one", other), ("two", other)):
        counters.run_written(run)
    hot, cold = PartitionCounters(), PartitionCounters()
    for heat, units in ((hot, 5.0), (cold, 1.0), (hot, 2.0)):
        heat.add("dynamodb:///a", ["EXP#1"], write_units=units)
    CounterFiles(tmp_path, other, cold).save()
    saved = tmp_path / f"{os.getpid()}.counters-2.json"
    saved.rename(tmp_path / "0.counters-2.json")
    found = CounterFiles(tmp_path, mine, hot).read()
    ((_, heats),) = found.heat
    assert heats == {Partition("dynamodb:///a", "EXP#1"): Heat(3.0, 0.0, 8.0, 0.0)}
    assert found.totals == {Counted(REQUESTS, "a"): 5}
    assert [period.counts for period in found.periods] == [{Counted(REQUESTS, "a"): 5}]
    assert (found.live_runs, found.processes) == (2, 2)


def test_the_last_day_of_a_process_that_ended_long_ago_is_past(tmp_path: Path, time: FakeTime):
    ended = Counters(clock=time)
    ended.add(REQUESTS, operation="a")
    CounterFiles(tmp_path, ended).save()
    (tmp_path / f"{os.getpid()}.counters-2.json").rename(tmp_path / "0.counters-2.json")
    time.now += 3 * 24 * 3600
    counters = Counters(clock=time)
    counters.add(REQUESTS, operation="a")
    found = CounterFiles(tmp_path, counters).read()
    assert [period.start for period in found.periods] == [time.now]
    assert found.totals == {Counted(REQUESTS, "a"): 2}


def test_threads_that_read_at_once_find_whole_files(tmp_path: Path):
    counters = Counters()
    for n in range(2_000):
        counters.add(REQUESTS, operation=f"operation {n}")
    files = CounterFiles(tmp_path, counters)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: files.read(), range(40)))
    assert {len(one.totals) for one in found} == {2_000}


def test_past_periods_are_written_once(tmp_path: Path, time: FakeTime):
    """A day of them takes some MB, and the file is written every few seconds."""
    counters = Counters(clock=time)
    files = CounterFiles(tmp_path, counters)
    past = tmp_path / f"{os.getpid()}.past-2.json"
    for _ in range(3):
        counters.add(REQUESTS, operation="a")
        time.now += 300
    files.save()
    written = past.stat().st_ino
    counters.add(REQUESTS, operation="a", amount=5)
    found = files.read()
    assert past.stat().st_ino == written
    assert [period.counts for period in found.periods] == [
        *[{Counted(REQUESTS, "a"): 1}] * 3,
        {Counted(REQUESTS, "a"): 5},
    ]
    time.now += 300
    assert [sum(period.counts.values()) for period in files.read().periods] == [1, 1, 1, 5, 0]
    assert past.stat().st_ino != written


def test_a_server_has_a_folder_that_others_on_the_machine_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The metrics page, the operator's page and the commands read the same files."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    name = f"mlflow-dynamodbstore-counters-{os.getuid()}"
    (tmp_path / f"{name}-{2**22 + 1}").mkdir(mode=0o700)  # of a server that has ended
    foreign = tmp_path / f"{name}-{os.getpid()}"
    foreign.mkdir(mode=0o755)
    (foreign / "1.counters-2.json").write_text("anybody could have written this")
    counter_files.files_of_this_server.cache_clear()
    files = counter_files.files_of_this_server()
    assert files is counter_files.files_of_this_server()
    assert files.folder.stat().st_mode & 0o777 == 0o700
    assert {one.name for one in tmp_path.iterdir()} == {files.folder.name, foreign.name}
    (files.folder / "1.counters.json").write_text("of another release")
    assert files.read().processes == 1
    assert counter_files.counters_on_this_machine().processes == 1
    counter_files.files_of_this_server.cache_clear()


def test_a_store_counts_its_calls_and_requests(tmp_path: Path):
    COUNTERS.reset()
    store = DynamoDBTrackingStore(f"dynamodb:///{tmp_path}/mlflow.ddb?synchronous=NORMAL", "/x")
    run_id = store.create_run("0", "me", 1, [], "a run").info.run_id
    for step in range(3):
        store.log_batch(run_id, [Metric("m", 1.0, 1, step)], [], [])
    with pytest.raises(MlflowException):
        store.get_run("0" * 32)
    found = COUNTERS.totals()
    assert found[Counted(CALLS, "log_batch")] == 3
    assert found[Counted(REQUESTS, "log_batch", "BatchWriteItem")] >= 3
    assert found[Counted(SECONDS, "log_batch")] > 0
    assert found[Counted(ERRORS, "get_run")] == 1
    assert found[Counted(HITS, "admitted runs")] == 2
    assert COUNTERS.live_runs() == [run_id]
    store.update_run_info(run_id, 3, 5, None)
    assert COUNTERS.live_runs() == []
    assert {key.counter for key in COUNTERS.totals()} <= set(MEANINGS)


@pytest.mark.skipif(find_dynoxide() is None, reason="dynoxide is not installed")
def test_units_that_dynamodb_reports_count_for_the_operation():
    with dynoxide_server() as address:
        COUNTERS.reset()
        store = DynamoDBTrackingStore(f"dynamodb://{address}/counted", "/x")
        run_id = store.create_run("0", "me", 1, [], "a run").info.run_id
        store.get_run(run_id)
        store.log_batch(run_id, [Metric("m", 1.0, 1, 0)], [], [])
        store.update_run_info(run_id, 3, 5, None)
    found = COUNTERS.totals()
    assert [key for key in found if key.counter == THROTTLES] == []  # also for bulk writes
    assert found[Counted(WRITE_UNITS, "create_run")] >= 2
    assert found[Counted(READ_UNITS, "get_run")] >= 1
