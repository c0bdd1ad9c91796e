"""How often a search of an experiment with many volumes waits, and how many requests it sends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mlflow.entities import ViewType
from mlflow.entities.trace_metrics import AggregationType, MetricAggregation, MetricViewType

from bench.volume_searches import EIGHT, ONE, ONE_RANGE, TWO_RANGES, WIDTH, Experiments
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.stores import uri_on

COUNT = 240


@pytest.fixture(scope="module")
def experiments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Experiments]:
    with uri_on("dynoxide", tmp_path_factory.mktemp("volumes")) as uri:
        made = Experiments(uri)
        made.fill(COUNT, COUNT)
        assert len(made.store.experiment_lookup.volumes.of([EIGHT])) == WIDTH
        yield made


@pytest.mark.parametrize("name", [*ONE_RANGE, *TWO_RANGES])
def test_a_search_of_eight_volumes_waits_about_as_often(experiments, name):
    search = {**ONE_RANGE, **TWO_RANGES}[name]
    narrow, wide = (experiments.measured(search, one) for one in (ONE, EIGHT))
    assert wide.found == narrow.found > 0
    shown = f"{narrow.chain}\n{wide.chain}"
    assert wide.chain.length <= narrow.chain.length + 1, shown
    ranges = 1 if name in ONE_RANGE else 2
    assert len(wide.chain.requests) <= len(narrow.chain.requests) + ranges * WIDTH, shown


def test_a_search_of_many_experiments_waits_about_as_often(experiments):
    ids = [str(experiments.store.create_experiment(f"other {n}")) for n in range(6)]
    for n in range(6 * 30):
        experiments.add_run(ids[n % 6], n)

    def search(store: DynamoDBTrackingStore, experiment_id: str) -> int:
        searched = [experiment_id] if experiment_id == ONE else ids
        where = "tags.few = 'v3'"
        return len(store.search_runs(searched, where, ViewType.ACTIVE_ONLY, 50))

    one = experiments.measured(search, ONE)
    many = experiments.measured(search, "others")
    assert many.found == 5
    assert many.chain.length <= one.chain.length + 1, f"{one.chain}\n{many.chain}"


def test_the_traces_of_one_of_many_experiments_are_read_in_growing_pages(experiments):
    store = experiments.store
    others = [str(store.create_experiment(f"without traces {n}")) for n in range(6)]

    def search(store: DynamoDBTrackingStore, experiment_id: str) -> int:
        found, _ = store.search_traces(None, None, 100, locations=[experiment_id, *others])
        return len(found)

    measured = experiments.measured(search, ONE)
    assert measured.found == 100
    assert measured.chain.length <= 4, measured.chain


def test_metrics_of_traces_are_read_from_all_volumes_at_once(experiments):
    def search(store: DynamoDBTrackingStore, experiment_id: str) -> int:
        counted = [MetricAggregation(AggregationType.COUNT)]
        (point,) = store.query_trace_metrics(
            [experiment_id], MetricViewType.TRACES, "trace_count", counted
        )
        return int(point.values["COUNT"])

    narrow, wide = (experiments.measured(search, one) for one in (ONE, EIGHT))
    assert wide.found == narrow.found == COUNT
    assert wide.chain.length == narrow.chain.length, f"{narrow.chain}\n{wide.chain}"
