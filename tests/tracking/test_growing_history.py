"""A history is read in pages and in samples while it grows, and a run may have a million points."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Metric, RunStatus, ViewType
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from mlflow_dynamodbstore.tracking import metric_log, sealing
from mlflow_dynamodbstore.tracking.series import sampled
from tests.sql import empty_database
from tests.stores import open_tracking_store
from tests.table.fakes import FakeTime

HOME = "0"
KEYS = 10
CALLS = 1000 if os.environ.get("STORE_FUZZ") else 60
"""Of 1,000 points each; a million in `make fuzz`."""


def new_run(store: Any) -> str:
    run_id: str = store.create_run(HOME, "u", 1, [], "n").info.run_id
    return run_id


def point(key: str, step: int) -> Metric:
    return Metric(key, step / 7, 1000 + step, step)


def shown(points: Any) -> list[tuple[int, int, float]]:
    return [(one.step, one.timestamp, one.value) for one in points]


@pytest.mark.parametrize("seed", range(6))
def test_pages_and_samples_of_a_growing_history_are_those_of_mlflows_store(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader turns pages while two writers log; the run rests, ends and goes on meanwhile."""
    if seed % 2:
        monkeypatch.setattr(metric_log, "SEGMENT_BYTES", 60)
        monkeypatch.setattr(metric_log, "SEGMENTS_BEFORE_FOLDING", 2)
    rng, time = random.Random(seed), FakeTime()
    writers = [open_tracking_store(tmp_path, time) for _ in range(2)]
    reader: Any = open_tracking_store(tmp_path, time)
    theirs: Any = SqlAlchemyStore(empty_database(tmp_path), str(tmp_path))
    ours_id, their_id = new_run(writers[0]), new_run(theirs)
    step, pages, token, was_last = 0, [], None, False
    for turn in range(60):
        batch = [point("m", step + n) for n in range(rng.randrange(1, 9))]
        step += len(batch)
        rng.choice(writers).log_batch(ours_id, batch, [], [])
        theirs.log_batch(their_id, batch, [], [])
        if rng.random() < 0.2:
            time.now += sealing.REST_BEFORE_SEALING + 1
            reader.search_runs([HOME], "", ViewType.ALL, 5)
        if rng.random() < 0.1:
            status = rng.choice([RunStatus.FINISHED, RunStatus.RUNNING])
            rng.choice(writers).update_run_info(ours_id, status, 9, None)
        if not was_last:
            page = reader.get_metric_history(ours_id, "m", 3, token)
            pages += shown(page)
            token, was_last = page.token, not page.token
        count = rng.choice([1, 2, 5, 20, 1000])
        span = rng.choice([(None, None), sorted(rng.choices(range(step), k=2))])
        arguments = ("m", count, *span)
        assert shown(reader.get_metric_history_bulk_interval([ours_id], *arguments)) == shown(
            theirs.get_metric_history_bulk_interval([their_id], *arguments)
        ), turn
    while not was_last:
        page = reader.get_metric_history(ours_id, "m", 50, token)
        pages += shown(page)
        token, was_last = page.token, not page.token
    whole = shown(theirs.get_metric_history(their_id, "m"))
    assert pages == whole[: len(pages)], "each point once, in order, up to where the reader was"
    assert shown(reader.get_metric_history(ours_id, "m")) == whole


@pytest.mark.hypothesis  # so that `make fuzz` runs it with a million points
@pytest.mark.timeout(1800)
def test_a_run_has_a_million_points(tmp_path: Path) -> None:
    store: Any = open_tracking_store(tmp_path, FakeTime())
    reader: Any = open_tracking_store(tmp_path, FakeTime())
    run_id, steps = new_run(store), 1000 // KEYS
    keys = [f"metric_{n}" for n in range(KEYS)]
    for call in range(CALLS):
        batch = [point(key, call * steps + n) for key in keys for n in range(steps)]
        store.log_batch(run_id, batch, [], [])
        if call % (CALLS // 10) == 0:
            check(reader, run_id, keys[call % KEYS], (call + 1) * steps)
    store.update_run_info(run_id, RunStatus.FINISHED, 9, None)
    for key in keys:
        check(reader, run_id, key, CALLS * steps)
    assert reader.get_run(run_id).data.metrics == dict.fromkeys(keys, (CALLS * steps - 1) / 7)


def check(store: Any, run_id: str, key: str, total: int) -> None:
    """All points are there once, in order; so are a page in the middle and a sample."""
    assert shown(store.get_metric_history(run_id, key)) == shown(
        point(key, step) for step in range(total)
    )
    sample = store.get_metric_history_bulk_interval([run_id], key, 320, None, None)
    assert [one.step for one in sample] == list(sampled(total, 320))
    last = store.get_metric_history_bulk_interval([run_id], key, 1000, total - 50, total)
    assert [one.step for one in last] == list(range(max(0, total - 50), total))
    page = store.get_metric_history(run_id, key, total // 2)
    after = store.get_metric_history(run_id, key, 7, page.token)
    assert [one.step for one in after] == list(range(total // 2, min(total, total // 2 + 7)))


@pytest.mark.timeout(600)
def test_a_thousand_metrics_in_each_call(tmp_path: Path) -> None:
    """As many keys as a call may have, so that each is folded with all others."""
    store: Any = open_tracking_store(tmp_path, FakeTime())
    run_id, calls = new_run(store), 30
    for step in range(calls):
        store.log_batch(run_id, [point(f"m{n}", step) for n in range(1000)], [], [])
    for _ in range(2):
        for key in ("m0", "m499", "m999"):
            check(store, run_id, key, calls)
        assert len(store.get_run(run_id).data.metrics) == 1000
        store.update_run_info(run_id, RunStatus.FINISHED, 9, None)
