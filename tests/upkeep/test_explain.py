"""``explain`` says which path answers a search, and what its first page costs."""

from __future__ import annotations

import pytest
from mlflow.entities import ViewType
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.shared.volumes import Volumes
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.upkeep.explain import explain
from tests.places import SPREAD, partitions
from tests.upkeep.helpers import make_run


@pytest.fixture
def plan(store):
    for n in range(30):
        make_run(store, metrics={"loss": n / 10}, params={"model": f"tree{n % 3}"})

    def planned(filter_string="", order_by=(), path=None, max_results=10):
        engine = MeteredEngine(store.table.engine)
        table = Table(engine, clock=store.table.clock)
        return explain(
            table, engine, "0", filter_string, order_by, ViewType.ACTIVE_ONLY, max_results, path
        )

    return planned


def test_the_default_order_reads_by_time(plan):
    found = plan()
    assert found.chosen.name == "ByTime"
    assert found.requests.keys() == {"Query"}
    assert found.runs == 10
    assert found.more


def test_the_best_by_a_metric_are_read_from_their_ranks(plan, store):
    found = plan("metrics.loss < 2", ["metrics.loss DESC"])
    assert found.chosen.name == "ByMetric"
    assert found.chosen.range is not None
    assert found.chosen.range[0].startswith("RANK#m#loss#")
    assert found.chosen.in_order
    assert found.comparisons == ("metric.loss < 2.0",)
    assert found.runs == 10
    assert sum(found.requests.values()) <= 5 * len(partitions(store.table, "0"))


def test_each_volume_is_read_by_itself(plan, store):
    before = plan("", ["metrics.loss DESC"]).chosen
    Volumes(store.table).spread("0", 4)
    after = plan("", ["metrics.loss DESC"])
    volumes = len(partitions(store.table, "0"))
    assert before.requests is not None
    # Ranks and live runs of each volume; runs are fetched from all at once.
    more = 2 * (volumes - SPREAD)
    assert after.chosen.requests == before.requests + more
    assert abs(sum(after.requests.values()) - after.chosen.requests) <= 1


def test_a_path_can_be_forced(plan):
    usual = plan("params.model = 'tree1'")
    forced = plan("params.model = 'tree1'", path="ByTime")
    assert (usual.chosen.name, forced.chosen.name) == ("ByParam", "ByTime")
    assert usual.runs == forced.runs == 10


def test_a_path_that_cannot_answer_is_refused(plan):
    with pytest.raises(
        ValueError, match="ByText cannot answer this search; ByTime, ByPartition can"
    ):
        plan(path="ByText")


def test_a_filter_that_mlflow_refuses_is_refused(plan):
    with pytest.raises(MlflowException, match="Invalid"):
        plan("loss is low")
