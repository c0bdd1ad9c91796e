"""What reviews cost on DynamoDB: requests, read units and write units, at most."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from mlflow.genai.review_queues import ReviewQueue

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import Meter, MeteredEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.reviews.making import ask, line_up, pages
from tests.stores import uri_on
from tests.traces.making import make_info, trace_id

LONG = 300
LEFT = 5


class Metered(NamedTuple):
    store: DynamoDBTrackingStore
    meter: Meter
    experiment: str
    queue: ReviewQueue


def metered(uri: str) -> Metered:
    """A queue of 300 items, of which five are pending."""
    engine = MeteredEngine(open_engine(uri))
    engine.prepare(create=True)
    store = DynamoDBTrackingStore(uri, "s3://bucket/root", table=Table(engine))
    experiment = store.create_experiment("costs")
    items = [f"tr-{n:032x}" for n in range(LONG)]
    queue = line_up(store, experiment, *items)
    for n, item in enumerate(items[LEFT:]):
        store.set_review_queue_item_status(
            queue.queue_id,
            item_id=item,
            status="declined" if n % 5 == 0 else "complete",
            completed_by="ada@example.com",
        )
    return Metered(store, engine.meter, experiment, queue)


@pytest.fixture(scope="module", params=["embedded", "dynoxide"])
def costs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Metered]:
    with uri_on(request.param, tmp_path_factory.mktemp("costs")) as uri:
        yield metered(uri)


def test_what_is_left_of_a_long_queue(costs):
    """The queue and its pending items: 2 requests and 2 read units, however long it is."""
    store, meter, _, queue = costs
    with meter.measure() as used:
        found = store.list_review_queue_items(queue.queue_id, status="pending")
    assert len(found) == LEFT
    assert used.total_requests == 2, used
    assert used.read_units <= 2, used


def test_a_page_of_a_long_queue_costs_the_same_wherever_it_is(costs):
    """30 items of all statuses: at most 4 requests and 12 read units, on the last page too."""
    store, meter, _, queue = costs
    listed = pages(
        lambda **options: store.list_review_queue_items(queue.queue_id, **options), LONG // 10
    )
    for _ in range(10):
        with meter.measure() as used:
            assert len(next(listed)) == LONG // 10
        assert used.total_requests <= 4, used
        assert used.read_units <= 12, used


def test_finishing_an_item(costs):
    """Read and changed: 2 requests, 2 read units, 3 write units, of which 2 for LSI1."""
    store, meter, experiment, _ = costs
    queue = line_up(store, experiment, "tr-1", name="finishing")
    with meter.measure() as used:
        store.set_review_queue_item_status(
            queue.queue_id, item_id="tr-1", status="complete", completed_by="ada"
        )
    assert used.total_requests == 2, used
    assert used.read_units <= 2, used
    assert used.write_units <= 3, used


def test_attaching_many(costs):
    """99 items in 3 requests: two reads of the items and their traces, and one transaction."""
    store, meter, experiment, _ = costs
    queue = line_up(store, experiment, name="attaching")
    with meter.measure() as used:
        store.add_items_to_review_queue(queue.queue_id, item_ids=[f"tr-{n}" for n in range(99)])
    assert used.total_requests == 3, used
    assert used.write_units <= 4 * 99 + 3, used


def test_label_schemas(costs):
    """Creating one takes 2 requests; listing takes 2 in a process that knows the experiment."""
    store, meter, _, _ = costs
    experiment = store.create_experiment("asked")
    with meter.measure() as used:
        ask(store, experiment)
    assert used.total_requests == 2, used
    store.list_label_schemas(experiment)
    with meter.measure() as used:
        assert len(store.list_label_schemas(experiment)) == 2
    assert used.total_requests == 2, used
    assert used.read_units <= 2, used


def test_the_queues_of_one_user(costs):
    """2 requests, even if the only one is older than many of other users."""
    store, meter, _, _ = costs
    experiment = store.create_experiment("reviewers")
    mine = store.get_or_create_user_queue(experiment, user="ada")
    for n in range(60):
        store.get_or_create_user_queue(experiment, user=f"user {n}")
    with meter.measure() as used:
        assert list(store.list_review_queues(experiment, user="Ada", max_results=1)) == [mine]
    assert used.total_requests == 2, used
    assert used.read_units <= 8, used


def test_deleting_traces_asks_once_whether_there_are_queues(costs):
    """One request in all where there are no queues, and one more for each trace where there are."""
    store, meter, reviewed, _ = costs
    used = {}
    for experiment in (store.create_experiment("traced"), reviewed):
        for n in range(10):
            store.start_trace(make_info(trace_id(5000 + n), experiment))
        places = [store.trace_lookup.find_place(trace_id(5000 + n)) for n in range(10)]
        with meter.measure() as spent:
            store.queue_attachments.detach(places)
        used[experiment] = spent.total_requests
        store.delete_traces(experiment, trace_ids=[trace_id(5000 + n) for n in range(10)])
    assert list(used.values()) == [1, 11]
