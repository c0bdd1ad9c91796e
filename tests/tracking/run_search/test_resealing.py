"""A run that is written to and sealed again while a search reads is found all the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Metric, Param, RunStatus, RunTag, ViewType

from mlflow_dynamodbstore.shared.policies import PRIMARY_INDEX, TEXT_FIELDS
from mlflow_dynamodbstore.table.workers import Task, replaced_workers
from mlflow_dynamodbstore.tracking.run_search.search import forced_path, parse_run_query
from tests.interleaving import Two, at_every_moment, two_stores

RUNS = 6


class OneByOne:
    """A pool that does one task after another, in one order or the other."""

    def __init__(self, *, backwards: bool) -> None:
        self.backwards = backwards

    def run(self, tasks: Sequence[Task]) -> None:
        for task in reversed(tasks) if self.backwards else tasks:
            task()


@pytest.fixture(params=["a file", "the first before the second", "the second before the first"])
def side_by_side(request: pytest.FixtureRequest, two: Two) -> Iterator[None]:
    """How reads follow each other that a search sends at the same time where requests take long."""
    if request.param == "a file":
        yield
        return
    two.engine.capabilities = replace(two.engine.capabilities, waits_on_network=True)
    with replaced_workers(OneByOne(backwards=request.param.startswith("the second"))):
        yield


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
        search = store.run_search
        query = search._with_indexes(parse_run_query("", [order], ViewType.ALL))
        volumes = search.experiment_lookup.volumes.of(["0"])
        return [record.run_id for record in search._rows(query, volumes, None, 1)]
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
@pytest.mark.usefixtures("side_by_side")
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


@pytest.mark.parametrize(
    ("path", "condition"),
    [
        ("ByMetric", "metrics.m >= 0"),
        ("ByParam", "params.p LIKE '0%'"),
        ("ByText", "tags.x LIKE '%night%'"),
    ],
)
@pytest.mark.usefixtures("side_by_side")
def test_a_run_that_ends_between_any_two_reads_is_found(
    two: Two, path: str, condition: str
) -> None:
    """By paths whose entries only sealed runs have, and are counted before they are read."""
    indexed = {"run.tags.x": {"levels": ["trigram"], "complete": True}}
    for store in two[:2]:
        store.policies.set(TEXT_FIELDS, indexed)
    wanted = []

    def begin() -> str:
        run_id: str = two.second.create_run("0", "u", 7, [RunTag("x", "night")], "n").info.run_id
        two.second.log_batch(run_id, [Metric("m", 3, 1, 1)], [Param("p", "0")], [])
        wanted.append(run_id)
        return run_id

    end(two.second, begin())
    for at in at_every_moment(two, lambda: end(two.second, wanted[-1])):
        begin()
        token = forced_path.set(path)
        try:
            runs = two.first.search_runs(["0"], condition, ViewType.ALL)
        finally:
            forced_path.reset(token)
        assert {run.info.run_id for run in runs} == set(wanted), at
        end(two.second, wanted[-1])
