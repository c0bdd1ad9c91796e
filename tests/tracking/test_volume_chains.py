"""How often a search of an experiment with many volumes waits, and how many requests it sends."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest
from mlflow.entities import Metric, Param, RunStatus, RunTag, ViewType
from mlflow.entities.trace_info import TraceInfo
from mlflow.entities.trace_location import TraceLocation
from mlflow.entities.trace_state import TraceState

from mlflow_dynamodbstore.shared.volumes import ANNOUNCED_SECONDS
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.chains import Chain, counted_chain
from tests.stores import uri_on
from tests.table.fakes import FakeTime

WIDTH = 8
COUNT = 240

Search = Callable[[DynamoDBTrackingStore, str], int]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DynamoDBTrackingStore]:
    """A store with the same runs and traces in an experiment of one volume, and in one of eight."""
    time = FakeTime()
    with uri_on("dynoxide", tmp_path_factory.mktemp("volumes")) as uri:
        made = DynamoDBTrackingStore(uri, "/a", table=Table(open_engine(uri), clock=time))
        assert [made.create_experiment(name) for name in ("narrow", "wide")] == ["1", "2"]
        made.experiment_lookup.volumes.spread("2", WIDTH)
        made.experiment_lookup.get("2")
        time.sleep(ANNOUNCED_SECONDS + 1)
        for experiment_id in ("1", "2"):
            for n in range(COUNT):
                fill(made, experiment_id, n)
        assert len(made.experiment_lookup.volumes.of(["2"])) == WIDTH
        yield made


def fill(store: DynamoDBTrackingStore, experiment_id: str, n: int) -> None:
    tags = [RunTag("few", f"v{n % 40}"), RunTag("half", f"v{n % 2}")]
    run_id = store.create_run(experiment_id, "u", n, tags, f"name {n % 60}").info.run_id
    value = random.Random(n).random()
    store.log_batch(run_id, [Metric("m", value, 1, 1)], [Param("p", f"value {n % 40}")], [])
    status = RunStatus.FAILED if n % 20 == 0 else RunStatus.FINISHED
    store.update_run_info(run_id, status, n + 1, None)
    store.start_trace(
        TraceInfo(
            f"tr-{experiment_id}{n:030x}",
            TraceLocation.from_experiment_id(experiment_id),
            1_000 + n,
            TraceState.OK,
            execution_duration=5,
            tags={"few": f"v{n % 40}", "half": f"v{n % 2}", "mlflow.traceName": f"name {n % 60}"},
        )
    )


def runs(where: str = "", *order: str, size: int = 50) -> Search:
    return lambda store, experiment_id: len(
        store.search_runs([experiment_id], where, ViewType.ACTIVE_ONLY, size, list(order))
    )


def traces(where: str | None = None, *order: str) -> Search:
    return lambda store, experiment_id: len(
        store.search_traces(None, where, 50, list(order), locations=[experiment_id])[0]
    )


def measured(store: DynamoDBTrackingStore, search: Search, experiment_id: str) -> tuple[int, Chain]:
    search(store, experiment_id)  # what a process remembers is not counted
    with counted_chain(store.table.engine) as chain:
        found = search(store, experiment_id)
    return found, chain


ONE_RANGE = {
    "runs by time": runs(),
    "runs with a rare tag": runs("tags.few = 'v3'"),
    "runs with a common tag": runs("tags.half = 'v1'"),
    "runs with a status": runs("attributes.status = 'FAILED'"),
    "runs of a name": runs("attributes.run_name = 'name 7'"),
    "runs by end": runs("", "attributes.end_time DESC"),
    "traces by time": traces(),
    "traces with a rare tag": traces("tag.few = 'v3'"),
    "traces with a common tag": traces("tag.half = 'v1'"),
    "traces of a name": traces("trace.name = 'name 3'"),
    "traces by name": traces(None, "tags.`mlflow.traceName` ASC"),
}
"""Searches that read one range of each volume."""
TWO_RANGES = {
    "runs by a metric": runs("", "metrics.m DESC", size=20),
    "runs with a param": runs("params.p = 'value 3'"),
    "runs with a metric": runs("metrics.m > 0.95"),
}
"""Searches that read two: the live runs, and what is derived from sealed ones."""


@pytest.mark.parametrize("name", [*ONE_RANGE, *TWO_RANGES])
def test_a_search_of_eight_volumes_waits_about_as_often(store, name):
    search = {**ONE_RANGE, **TWO_RANGES}[name]
    found, narrow = measured(store, search, "1")
    assert found > 0
    found_too, wide = measured(store, search, "2")
    assert found_too == found
    assert wide.length <= narrow.length + 1, f"{narrow}\n{wide}"
    ranges = 1 if name in ONE_RANGE else 2
    assert len(wide.requests) <= len(narrow.requests) + ranges * WIDTH, f"{narrow}\n{wide}"


def test_a_search_of_many_experiments_waits_about_as_often(store):
    ids = [str(store.create_experiment(f"other {n}")) for n in range(6)]
    for n in range(6 * 30):
        fill(store, ids[n % 6], n)

    def search(store: DynamoDBTrackingStore, experiment_id: str) -> int:
        searched = [experiment_id] if experiment_id == "1" else ids
        where = "tags.few = 'v3'"
        return len(store.search_runs(searched, where, ViewType.ACTIVE_ONLY, 50))

    _, one = measured(store, search, "1")
    found, many = measured(store, search, "others")
    assert found == 5
    assert many.length <= one.length + 1, f"{one}\n{many}"


def test_the_traces_of_one_of_many_experiments_are_read_in_growing_pages(store):
    others = [str(store.create_experiment(f"without traces {n}")) for n in range(6)]

    def search(store: DynamoDBTrackingStore, experiment_id: str) -> int:
        found, _ = store.search_traces(None, None, 100, locations=[experiment_id, *others])
        return len(found)

    found, chain = measured(store, search, "1")
    assert found == 100
    assert chain.length <= 4, chain


def test_metrics_of_traces_are_read_from_all_volumes_at_once(store):
    from mlflow.entities.trace_metrics import (
        AggregationType,
        MetricAggregation,
        MetricViewType,
    )

    def search(store: DynamoDBTrackingStore, experiment_id: str) -> int:
        counted = [MetricAggregation(AggregationType.COUNT)]
        (point,) = store.query_trace_metrics(
            [experiment_id], MetricViewType.TRACES, "trace_count", counted
        )
        return int(point.values["COUNT"])

    found, narrow = measured(store, search, "1")
    found_too, wide = measured(store, search, "2")
    assert found_too == found == COUNT
    assert wide.length == narrow.length, f"{narrow}\n{wide}"
