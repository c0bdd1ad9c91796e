"""Many traces in one experiment: a search takes what its answer needs, in time and in memory."""

from __future__ import annotations

import tracemalloc

import pytest

from mlflow_dynamodbstore.shared.places import TracePlace
from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.traces.infos import _started
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.traces.making import NOON, client_metadata, make_info, trace_id

FEW, MANY = 500, 10_000
SESSION = "mlflow.trace.session"


def items(experiment, count):
    """The own items of many traces, as ``start_trace`` writes them."""
    for n in range(count):
        info = make_info(
            trace_id(n),
            experiment,
            start=NOON + n,
            tags={"team": f"t{n % 10}"},
            metadata={**client_metadata(), SESSION: f"s{n // 8}"},
        )
        yield _started(TracePlace(experiment, info.trace_id), info, dict(info.tags), 0, None).after


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scale")
    engine = MeteredEngine(open_engine(f"dynamodb:///{folder}/scale.ddb?synchronous=NORMAL"))
    store = DynamoDBTrackingStore("", "s3://bucket/root", table=Table(engine))
    places = {}
    for count in (FEW, MANY):
        places[count] = store.create_experiment(f"with {count}")
        # One by one would take minutes, and is not what is tested.
        store.table.write([Put(item) for item in items(places[count], count)])
    return store, engine.meter, places


@pytest.mark.parametrize(
    "filter_string",
    [
        None,
        "status = 'OK'",
        "tags.team = 't3'",
        f"metadata.`{SESSION}` = 's7'",
        f"timestamp_ms < {NOON + 300}",
        f"request_id = '{trace_id(7)}'",
    ],
)
def test_a_search_reads_as_much_among_many_as_among_few(filled, filter_string):
    store, meter, places = filled
    units = []
    for count in (FEW, MANY):
        with meter.measure() as used:
            found, _ = store.search_traces([places[count]], filter_string, max_results=20)
        assert found
        units.append(used.read_units)
    assert units[1] <= units[0] * 1.1


def test_an_order_without_an_index_holds_one_page_of_traces_in_memory(filled):
    store, _, places = filled
    peaks = []
    for count in (FEW, MANY):
        store.search_traces([places[count]], order_by=["tags.team ASC"], max_results=20)
        tracemalloc.start()
        store.search_traces([places[count]], order_by=["tags.team ASC"], max_results=20)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 6 * peaks[0]  # of 20 times the traces
