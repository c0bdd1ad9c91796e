"""Walking an experiment page by page while it changes."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Metric, Param, RunStatus, ViewType
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.shared.policies import PRIMARY_INDEX
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore


@pytest.fixture
def store(tmp_path: Path) -> Any:
    uri = f"dynamodb:///{tmp_path}/x.ddb?synchronous=NORMAL"
    table = Table(MeteredEngine(open_engine(uri)))
    return DynamoDBTrackingStore(uri, "/tmp", table=table)


_times = itertools.count(1000)


def begin(store: Any, value: float) -> str:
    run_id: str = store.create_run("0", "u", next(_times), [], "n").info.run_id
    store.log_batch(run_id, [Metric("m", value, 1, 1)], [Param("p", f"{value:05}")], [])
    return run_id


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize(
    "order_by", [[], ["start_time ASC"], ["metrics.m DESC"], ["metrics.m ASC"], ["params.p ASC"]]
)
def test_runs_that_exist_throughout_come_exactly_once(
    store: Any, order_by: list[str], indexed: bool
) -> None:
    """Runs are created and finished between the pages; none that stays is missed or repeated.

    By RANK items and, where the metric has an index of its own, by that.
    """
    if indexed:
        store.policies.set(PRIMARY_INDEX, {"metric": "m", "complete": True, "since": 0})
    staying = [begin(store, n % 7) for n in range(40)]
    for run_id in staying[:10]:
        store.update_run_info(run_id, RunStatus.FINISHED, 1, None)
    seen: list[str] = []
    token, unfinished = None, iter(staying[10:])
    while True:
        page = store.search_runs(["0"], "", ViewType.ACTIVE_ONLY, 3, order_by, token)
        seen += [run.info.run_id for run in page]
        token = page.token
        if not token:
            break
        begin(store, len(seen) % 9)
        for run_id in itertools.islice(unfinished, 2):
            store.update_run_info(run_id, RunStatus.FINISHED, 1, None)
    assert len(seen) == len(set(seen))
    assert set(staying) <= set(seen)


def test_a_token_of_another_order_is_refused(store: Any) -> None:
    """Going on in another order would skip and repeat runs."""
    for n in range(3):
        begin(store, n)
    token = store.search_runs(["0"], "", ViewType.ACTIVE_ONLY, 1).token
    with pytest.raises(MlflowException, match="belongs to another order_by"):
        store.search_runs(["0"], "", ViewType.ACTIVE_ONLY, 1, ["metrics.m DESC"], token)


@pytest.mark.parametrize("token", ["no token", "eyJhIjogMX0=", "e30=", "W10=", "bnVsbA=="])
def test_a_forged_token_is_refused(store: Any, token: str) -> None:
    """Whatever a token holds, it gets one clear sentence."""
    begin(store, 1)
    with pytest.raises(MlflowException, match="Invalid page token") as raised:
        store.search_runs(["0"], "", ViewType.ACTIVE_ONLY, 1, None, token)
    assert raised.value.error_code == "INVALID_PARAMETER_VALUE"


@pytest.mark.one_volume(reason="a third of the runs fits the smallest page")
def test_several_experiments_are_merged_without_reading_them_to_the_end(store: Any) -> None:
    """The first page of many experiments reads little of each, in any order of theirs."""
    places = [store.create_experiment(f"e{n}") for n in range(4)]
    for n in range(200):
        run_id = store.create_run(places[n % 4], "u", n, [], "n").info.run_id
        store.log_batch(run_id, [Metric("m", n, 1, 1)], [], [])
        store.update_run_info(run_id, RunStatus.FINISHED, n, None)
    for order_by in ([], ["metrics.m DESC"]):
        with store.table.engine.meter.measure() as used:
            page = store.search_runs(places, "", ViewType.ACTIVE_ONLY, 10, order_by)
        assert [run.info.start_time for run in page] == list(range(199, 189, -1))
        with store.table.engine.meter.measure() as everything:
            assert len(store.search_runs(places, "", ViewType.ACTIVE_ONLY, 200, order_by)) == 200
        assert used.read_units < everything.read_units / 2
        assert used.total_requests <= 4 * 3
