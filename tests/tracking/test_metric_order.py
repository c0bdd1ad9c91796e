"""Whether a history can be read by its steps: marked wrongly neither way.

The row of a latest metric is marked ``disordered`` when the times of its history do not rise with
the steps, or when its items overlap. Such a history is read whole for each page.
"""

from __future__ import annotations

import itertools
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Metric, RunStatus, ViewType

from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.shared.policies import DAY
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.tracking import metric_log, sealing
from mlflow_dynamodbstore.tracking.points import DISORDERED, Point, history_item
from mlflow_dynamodbstore.tracking.records import SEALED
from mlflow_dynamodbstore.tracking.series import is_in_order
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.interleaving import two_stores
from tests.places import run_place
from tests.stores import open_tracking_store
from tests.table.fakes import FakeTime

HOME = "0"


@pytest.fixture(autouse=True)
def _small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_log, "SEGMENT_BYTES", 60)
    monkeypatch.setattr(metric_log, "SEGMENTS_BEFORE_FOLDING", 2)


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def store(tmp_path: Path, time: FakeTime) -> DynamoDBTrackingStore:
    return open_tracking_store(tmp_path, time)


@pytest.fixture
def other(tmp_path: Path, time: FakeTime, store: DynamoDBTrackingStore) -> DynamoDBTrackingStore:
    """Another process with the same table."""
    return open_tracking_store(tmp_path, time)


def new_run(store: Any) -> str:
    run_id: str = store.create_run(HOME, "u", 1, [], "n").info.run_id
    return run_id


def log(store: Any, run_id: str, *steps: int) -> None:
    for step in steps:
        store.log_metric(run_id, Metric("m", float(step), 100 + step, step))


def end(store: Any, run_id: str) -> None:
    store.update_run_info(run_id, RunStatus.FINISHED, 9, None)


def search(store: Any) -> None:
    store.search_runs([HOME], "", ViewType.ALL, 9)


def is_marked(store: Any, run_id: str) -> bool:
    row = store.table.get(Key(run_place(run_id).pk, run_keys.run_metric(run_id, "m")))
    return DISORDERED in row


def paged(store: Any, run_id: str, size: int) -> list[tuple[int, int]]:
    found, token = [], None
    while True:
        page = store.get_metric_history(run_id, "m", size, token)
        found += [(point.timestamp, point.step) for point in page]
        token = page.token
        if not token:
            return found


def check(store: Any, run_id: str, steps: range) -> None:
    for size in (1, 2, 5, 1000):
        assert paged(store, run_id, size) == [(100 + step, step) for step in steps]


@pytest.mark.parametrize("calls", [1, 7])
def test_a_run_that_is_reopened_while_it_is_sealed_stays_in_order(
    tmp_path: Path, calls: int
) -> None:
    """The segment that the sealer has read grows, and is folded again with the same points."""
    two = two_stores(tmp_path)
    sealer, writer = two.first, two.second
    for at in itertools.count(1):
        run_id = new_run(writer)
        log(writer, run_id, *range(calls))
        more = partial(log, writer, run_id, *range(calls, calls + 3))
        with two.engine.interrupted({at: more}):
            end(sealer, run_id)
        if two.engine.ended_before:
            assert at > 5
            return
        log(writer, run_id, calls + 3)
        end(sealer, run_id)
        assert not is_marked(writer, run_id), at
        check(writer, run_id, range(calls + 4))


def test_a_run_that_was_sealed_in_a_pause_stays_in_order(
    store: Any, other: Any, time: FakeTime
) -> None:
    """A training loop that pauses for an hour goes on with the segment it had."""
    run_id = new_run(store)
    for begin in (0, 20, 40):
        log(store, run_id, *range(begin, begin + 20))
        time.now += sealing.IDLE_BEFORE_SEALING + 11
        search(other)
        assert store.table.get(run_place(run_id).key)["state"] == SEALED
    log(store, run_id, *range(60, 80))
    end(other, run_id)
    assert not is_marked(store, run_id)
    check(store, run_id, range(80))


def test_a_run_whose_log_a_reader_folds_stays_in_order(
    store: Any, other: Any, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "LONG_LOG", 3)
    run_id = new_run(store)
    for begin in range(0, 50, 10):
        log(store, run_id, *range(begin, begin + 10))
        time.now += sealing.REST_BEFORE_SEALING + 1
        search(other)
    end(other, run_id)
    assert not is_marked(store, run_id)
    check(store, run_id, range(50))


@pytest.mark.parametrize("seed", range(4))
def test_a_history_in_any_order_of_steps_is_read_right(
    store: Any, other: Any, time: FakeTime, seed: int
) -> None:
    """Each time belongs to its step, but the calls come in any order, from two writers, over days.

    The items of such a history overlap, so that the one before a step need not reach it.
    """
    rng, run_id = random.Random(seed), new_run(store)
    steps = list(range(60))
    rng.shuffle(steps)
    for step in steps:
        log(rng.choice([store, other]), run_id, step)
        time.now += rng.choice([0, 0, DAY // 5])
    check(store, run_id, range(60))
    end(store, run_id)
    check(store, run_id, range(60))


def test_an_old_point_beside_a_repeated_one_is_told(store: Any, other: Any) -> None:
    """That the log ends where the history does, does not make it the same points."""
    run_id = new_run(store)
    for timestamp, step in ((10, 0), (20, 2)):
        store.log_metric(run_id, Metric("m", 1.0, timestamp, step))
    end(store, run_id)
    assert not is_marked(store, run_id)
    store.log_batch(run_id, [Metric("m", 1.0, 5, 1), Metric("m", 1.0, 20, 2)], [], [])
    assert paged(other, run_id, 1) == [(5, 1), (10, 0), (20, 2)]
    end(other, run_id)
    assert is_marked(store, run_id)
    assert paged(other, run_id, 1) == [(5, 1), (10, 0), (20, 2)]


@pytest.mark.parametrize(
    ("packs", "expected"),
    [
        ([[0, 1, 2], [3, 4]], True),
        ([[0, 1, 2], [2], [2, 3]], True),
        ([[0, 1, 2, 3], [2, 3, 4, 5], [6]], True),
        ([[0], [0, 1], [0, 1, 2]], True),
        ([[0, 1, 2, 3], [2, 3], [4]], True),
        ([[0, 1, 2, 3], [1, 2], [4]], False),
        ([[0, 4, 5], [3, 6]], False),
        ([[0, 2], [1]], False),
    ],
)
def test_items_are_in_order_when_the_last_before_a_step_reaches_as_far_as_any(
    store: Any, packs: list[list[int]], expected: bool
) -> None:
    run_id = new_run(store)
    place = store.run_lookup.find_place(run_id)
    made = [
        history_item(place, "m", [Point(n, 100 + n, 0.5) for n in steps], None) for steps in packs
    ]
    for stored in range(len(made) + 1):
        for item in made[:stored]:
            store.table.put(item)
        assert is_in_order(store.table, place, "m", made[stored:]) is expected
    assert is_in_order(store.table, place, "other", made)


def test_a_run_that_is_resumed_after_a_crash_stays_in_order(store: Any, other: Any) -> None:
    """The first process dies with calls that nobody folded; the second goes on where it stopped."""
    run_id = new_run(store)
    log(store, run_id, *range(25))
    log(other, run_id, *range(25, 70))
    check(store, run_id, range(70))
    end(other, run_id)
    assert not is_marked(store, run_id)
    check(store, run_id, range(70))
