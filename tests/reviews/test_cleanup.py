"""Cleanup removes the items of reviews that crashes left behind, and nothing else."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.keys import reviews as review_keys
from mlflow_dynamodbstore.keys.experiments import experiment_key
from mlflow_dynamodbstore.keys.item_kinds import describe_item
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from tests.faults import CrashingEngine, SimulatedCrash
from tests.reviews.making import ask, line_up
from tests.stores import ARTIFACTS, everything_in
from tests.traces.making import make_info, trace_id


def cleaned(store, time):
    return Cleanup(store.table, store.policies, sleep=time.sleep).run()


def kinds(store):
    return sorted(describe_item(item).kind for item in everything_in(store.table))


@pytest.fixture
def queue(store, experiment):
    schema = ask(store, experiment)
    return line_up(store, experiment, "tr-1", "tr-2", schema_ids=[schema.schema_id])


def test_what_is_in_order_stays(store, time, experiment, queue):
    before = everything_in(store.table)
    assert not cleaned(store, time).found
    assert everything_in(store.table) == before
    assert len(store.list_review_queue_items(queue.queue_id)) == 2


def test_items_without_their_queue_go(store, time, experiment, queue):
    """As an interrupted deletion leaves them."""
    others = line_up(store, experiment, "tr-1", name="other")
    store.table.delete(review_keys.review_queue_key(experiment, queue.queue_id))
    assert list(store.list_review_queues(experiment, item_id="tr-1")) == [others]
    assert cleaned(store, time).found == {
        "Item of a review queue": 2,
        "Name of a review queue": 1,
    }
    assert "Review queue" in kinds(store)
    assert len(store.list_review_queue_items(others.queue_id)) == 1


def test_everything_goes_with_its_experiment(store, time, experiment, queue):
    store.table.delete(experiment_key(experiment))
    found = cleaned(store, time).found
    assert {kind: found[kind] for kind in found if "queue" in kind or "schema" in kind} == {
        "Label schema": 1,
        "Name of a label schema": 1,
        "Review queue": 1,
        "Name of a review queue": 1,
        "Item of a review queue": 2,
    }
    assert not [kind for kind in kinds(store) if "queue" in kind or "schema" in kind]


def work(store: DynamoDBTrackingStore, experiment: str, trace: str) -> None:
    """All calls that write, in a form that can be repeated after a crash."""
    schemas = {s.name: s for s in store.list_label_schemas(experiment)}
    asked = schemas.get("asked") or schemas.get("again") or ask(store, experiment, "asked")
    store.update_label_schema(str(asked.schema_id), name="again")
    queues = {q.name: q for q in store.list_review_queues(experiment)}
    queue = queues.get("one") or queues.get("two") or line_up(store, experiment, name="one")
    store.update_review_queue(queue.queue_id, name="two", users=["ada"])
    wanted = [*(f"tr-{n}" for n in range(130)), trace]
    store.add_items_to_review_queue(queue.queue_id, item_ids=wanted)
    store.set_review_queue_item_status(
        queue.queue_id, item_id="tr-1", status="complete", completed_by="ada"
    )
    store.remove_items_from_review_queue(queue.queue_id, item_ids=["tr-2"])
    store.delete_traces(experiment, trace_ids=[trace])
    store.get_or_create_user_queue(experiment, user="ada")
    store.delete_review_queue(queue.queue_id)
    store.delete_label_schema(str(asked.schema_id))


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_dying_at_any_write_leaves_names_and_queues_usable(store, time, experiment, when):
    """Repeating the calls after a crash leads to the same state."""
    deaths = 0
    while True:
        trace = trace_id(deaths)
        store.start_trace(make_info(trace, experiment))
        engine = CrashingEngine(store.table.engine, at=deaths + 1, when=when)
        dying = DynamoDBTrackingStore("", ARTIFACTS, table=Table(engine, clock=time))
        try:
            work(dying, experiment, trace)
        except SimulatedCrash:
            deaths += 1
            work(store, experiment, trace)  # another process
        else:
            break
        cleaned(store, time)
        assert [q.name for q in store.list_review_queues(experiment)] == ["ada"]
        assert [s.name for s in store.list_label_schemas(experiment)] == ["Feedback"]
        assert "Item of a review queue" not in kinds(store)
        assert kinds(store).count("Name of a review queue") == 1
        assert kinds(store).count("Name of a label schema") == 1
    assert deaths > 10
