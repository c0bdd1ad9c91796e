"""A run that is written to and sealed again while a search reads is found all the same."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Metric, Param, RunStatus, RunTag, ViewType

from mlflow_dynamodbstore.shared.policies import PRIMARY_INDEX
from mlflow_dynamodbstore.tracking.run_search.search import forced_path
from tests.interleaving import Two, two_stores

RUNS = 6


@pytest.fixture
def two(tmp_path: Path) -> Two:
    two = two_stores(tmp_path)
    for store in two[:2]:
        store.policies.set(PRIMARY_INDEX, {"metric": "m", "complete": True, "since": 0})
    return two


def ended(store: Any, value: float) -> str:
    run_id: str = store.create_run("0", "u", int(value), [], f"n{value}").info.run_id
    store.log_batch(run_id, [Metric("m", value, 1, 1)], [Param("p", f"{value:05}")], [])
    end(store, run_id)
    return run_id


def end(store: Any, run_id: str) -> None:
    store.update_run_info(run_id, RunStatus.FINISHED, 9, None)


def found(store: Any, path: str, order: str) -> list[str]:
    """All runs in an order, two to a request at first."""
    token = forced_path.set(path)
    try:
        query = store.run_search._run_query("", [order], ViewType.ALL)
        streams = store.run_search._streams(query, ["0"], None, 1)
        return [record.run_id for record in streams.merged(store.table)]
    finally:
        forced_path.reset(token)


@pytest.mark.parametrize(
    ("path", "order"),
    [
        ("ByPrimaryMetric", "metrics.m ASC"),
        ("ByPrimaryMetric", "metrics.m DESC"),
        ("ByMetric", "metrics.m ASC"),
        ("ByParam", "params.p DESC"),
        ("ByName", "run_name ASC"),
        ("ByPartition", "metrics.m ASC"),
    ],
)
def test_a_run_reopened_and_sealed_between_any_two_reads_is_found(
    two: Two, path: str, order: str
) -> None:
    """Reopened before one read and sealed again before a later one, whichever these are."""
    runs = [ended(two.second, value) for value in range(RUNS)]
    wanted = runs if order.endswith("ASC") else runs[::-1]
    moved = runs[2]

    def reopen() -> None:
        two.second.set_tag(moved, RunTag("late", "1"))

    def seal() -> None:
        end(two.second, moved)

    for reopened in count(1):
        for sealed in count(reopened + 1):
            with two.engine.interrupted({reopened: reopen, sealed: seal}):
                assert found(two.first, path, order) == wanted, (reopened, sealed)
            end(two.second, moved)
            if two.engine.ended_before:
                break
        if sealed == reopened + 1:
            return
