"""What traces cost on DynamoDB: requests, read units and write units, at most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import Meter, MeteredEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.stores import uri_on
from tests.traces.making import NOON, client_metadata, make_info, make_spans, trace_id


class Metered(NamedTuple):
    store: DynamoDBTrackingStore
    meter: Meter
    experiment: str


def metered(uri: str) -> Metered:
    engine = MeteredEngine(open_engine(uri))
    engine.prepare(create=True)
    store = DynamoDBTrackingStore(uri, "s3://bucket/root", table=Table(engine))
    experiment = store.create_experiment("costs")
    # What a server that has been up for a while knows: its policies, and its experiments.
    store.log_spans(experiment, make_spans(trace_id(0)))
    return Metered(store, engine.meter, experiment)


@pytest.fixture(scope="module", params=["embedded", "dynoxide"])
def costs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Metered]:
    with uri_on(request.param, tmp_path_factory.mktemp("costs")) as uri:
        yield metered(uri)


def test_a_trace_of_ten_spans_as_a_client_sends_it(costs):
    """Spans first, then the info: at most 3 requests and 15 write units."""
    store, meter, experiment = costs
    with meter.measure() as used:
        store.log_spans(experiment, make_spans(trace_id(1)))
        store.start_trace(make_info(trace_id(1), experiment, metadata=client_metadata()))
    assert used.total_requests <= 3, used
    assert used.write_units <= 15, used
    assert used.read_units == 0, used


def test_a_trace_of_ten_spans_with_its_info_first(costs):
    """At most 3 requests and 15 write units in this order too."""
    store, meter, experiment = costs
    with meter.measure() as used:
        store.start_trace(make_info(trace_id(2), experiment))
        store.log_spans(experiment, make_spans(trace_id(2)))
    assert used.total_requests <= 3, used
    assert used.write_units <= 15, used


def test_a_trace_with_its_spans(costs):
    """At most 2 requests and 2 read units, for a process that has not cached it."""
    store, meter, experiment = costs
    store.log_spans(experiment, make_spans(trace_id(3)))
    store.trace_lookup.forget(trace_id(3))
    with meter.measure() as used:
        assert len(store.get_trace(trace_id(3)).data.spans) == 10
    assert used.total_requests <= 2, used
    assert used.read_units <= 2, used


@pytest.mark.one_volume(reason="counts the requests to one partition")
def test_a_search_by_a_tag(costs):
    """100 results in at most 4 requests and 100 read units, although twice as many are read."""
    store, meter, _ = costs
    experiment = store.create_experiment("searched")
    for n in range(250):
        tags = {"team": "red" if n % 2 else "blue"}
        info = make_info(trace_id(1000 + n), experiment, start=NOON + n, tags=tags)
        store.start_trace(info)
    with meter.measure() as used:
        found, token = store.search_traces([experiment], "tags.team = 'red'", max_results=100)
    assert len(found) == 100
    assert token is not None
    assert used.total_requests <= 4, used
    assert used.read_units <= 100, used


def test_deleting_a_run_asks_once_for_its_assessments(costs):
    """Cheap for a run that made none: one request."""
    store, meter, _ = costs
    with meter.measure() as used:
        store.assessments.delete_assessments_of_run("0" * 32)
    assert used.total_requests == 1, used
    assert used.read_units <= 1, used
