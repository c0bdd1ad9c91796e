"""The path that is chosen is the one that reads least, as DynamoDB would charge it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Metric, Param, RunStatus, RunTag, ViewType

from mlflow_dynamodbstore.shared.policies import PRIMARY_INDEX
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.upkeep.explain import Explanation, explain

RUNS = 400
pytestmark = pytest.mark.one_volume(reason="what is cheapest depends on how much a partition holds")


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """400 finished runs, in which values are rare, common or shared by all."""
    uri = f"dynamodb:///{tmp_path_factory.mktemp('choices')}/x.ddb?synchronous=NORMAL"
    engine = MeteredEngine(open_engine(uri))
    table = Table(engine)
    store: Any = DynamoDBTrackingStore(uri, "/tmp", table=table)
    store.policies.set(PRIMARY_INDEX, {"metric": "acc", "complete": True, "since": 0})
    for n in range(RUNS):
        tags = [RunTag(f"t{k}", "some words of text") for k in range(10)]
        run_id = store.create_run("0", "u", n, tags, f"run {n}").info.run_id
        metrics = [Metric(key, n / RUNS, 1, 0) for key in ("acc", "loss")]
        params = [
            Param("seed", str(n)),
            Param("third", str(n % 3)),
            Param("half", "x" if n < RUNS / 2 else "y"),
        ]
        store.log_batch(run_id, metrics, params, [])
        status = RunStatus.FAILED if n % 50 == 0 else RunStatus.FINISHED
        store.update_run_info(run_id, status, n, None)

    def plan(filter_string: str, order_by: list[str], path: str | None = None) -> Explanation:
        return explain(table, engine, "0", filter_string, order_by, ViewType.ACTIVE_ONLY, 20, path)

    return plan


CASES = [
    ("", [], "ByTime"),
    # Few runs share it, whatever the order.
    ("params.seed = '7'", [], "ByParam"),
    ("params.seed = '7'", ["metrics.acc DESC"], "ByParam"),
    ("params.seed = '7'", ["metrics.loss DESC"], "ByParam"),
    ("run_name = 'run 7'", ["metrics.loss DESC"], "ByName"),
    ("metrics.loss > 0.99", [], "ByMetric"),
    ("status = 'FAILED'", [], "ByStatus"),
    # So many share it that reading in order finds a page of them sooner.
    ("params.third = '1'", [], "ByTime"),
    ("params.third = '1'", ["metrics.loss DESC"], "ByMetric"),
    ("params.half = 'y'", [], "ByTime"),
    ("run_name LIKE 'run%'", [], "ByTime"),
    ("status = 'FINISHED'", [], "ByTime"),
    # The primary metric has its index.
    ("", ["metrics.acc DESC"], "ByPrimaryMetric"),
    ("metrics.acc > 0.9", ["metrics.acc ASC"], "ByPrimaryMetric"),
    ("metrics.acc < 0.02", [], "ByPrimaryMetric"),
    ("", ["metrics.loss DESC"], "ByMetric"),
]


@pytest.mark.parametrize(("filter_string", "order_by", "expected"), CASES)
def test_the_path_that_reads_least_is_chosen(
    planned: Any, filter_string: str, order_by: list[str], expected: str
) -> None:
    """What planning and changing one's mind cost included, it costs at most twice the best."""
    chosen = planned(filter_string, order_by)
    assert chosen.chosen.name == expected
    forced = {
        name: planned(filter_string, order_by, name) for name in {way.name for way in chosen.ways}
    }
    least = min(plan.read_units for plan in forced.values())
    assert chosen.read_units <= 2 * least + 10, {n: p.read_units for n, p in forced.items()}
    assert {plan.runs for plan in forced.values()} == {chosen.runs}


def test_a_path_that_finds_too_little_is_given_up(planned: Any) -> None:
    """Half of the runs, but none of the latest: what was read in vain is less than the rest."""
    chosen = planned("params.half = 'x'", [])
    assert (chosen.chosen.name, chosen.given_up) == ("ByParam", "ByTime")
    assert chosen.read_units <= 2 * planned("params.half = 'x'", [], "ByParam").read_units


def test_the_primary_metric_takes_fewer_requests_than_ranks(planned: Any) -> None:
    """LSI5 brings whole runs in the request that finds them."""
    by_index = planned("", ["metrics.acc DESC"])
    by_ranks = planned("", ["metrics.acc DESC"], "ByMetric")
    assert sum(by_index.requests.values()) <= sum(by_ranks.requests.values())
    assert by_index.read_units <= by_ranks.read_units + 2


def test_the_partition_is_never_preferred(planned: Any) -> None:
    """It reads what lies below the runs too."""
    forced = planned("", [], "ByPartition")
    assert forced.read_units > 10 * planned("", []).read_units


def test_a_plan_tells_what_it_expects_and_what_it_took(planned: Any) -> None:
    """Pages and units, before and after."""
    plan = planned("params.third = '1'", [])
    ways = {way.name: way for way in plan.ways}
    assert ways["ByParam"].brings == len(range(1, RUNS, 3))
    assert ways["ByParam"].read_units > 134
    assert ways["ByTime"].chosen
    assert ways["ByTime"].requests == 1
    assert sum(plan.planning.values()) < sum(plan.requests.values())
    assert plan.given_up is None


def test_a_full_page_reads_few_more_runs_to_complete_a_group(tmp_path: Path) -> None:
    """The runs of one name are sorted by time, so all of them are read, but not twice as many."""
    uri = f"dynamodb:///{tmp_path / 'x.ddb'}?synchronous=NORMAL"
    engine = MeteredEngine(open_engine(uri))
    store = DynamoDBTrackingStore(uri, "/tmp", table=Table(engine))
    for n in range(140):
        run_id = store.create_run("0", "u", n, [], f"run {n // 7:02}").info.run_id
        store.update_run_info(run_id, RunStatus.FINISHED, n, None)
    order = ["attributes.run_name ASC", "start_time ASC"]
    engine.meter.reset()
    page = store.search_runs(["0"], "", ViewType.ACTIVE_ONLY, 44, order)
    assert [run.info.start_time for run in page] == [*range(44)]
    # 46 runs, one read each, and 16 more for the rest of the seven runs of the last name
    assert engine.meter.total().read_units <= 46 + 16 + 3
