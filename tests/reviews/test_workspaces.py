"""Label schemas and review queues of another workspace look as if they did not exist."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.reviews.making import ask, line_up
from tests.stores import everything_in, open_tracking_store, refused
from tests.table.fakes import FakeTime
from tests.traces.making import make_info, trace_id

TRACE = trace_id(1)


@pytest.fixture
def store(
    tmp_path: Path, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DynamoDBTrackingStore]:
    monkeypatch.setenv(MLFLOW_ENABLE_WORKSPACES.name, "true")
    opened = open_tracking_store(tmp_path, time, options="synchronous=NORMAL&index_lag=3600")
    yield opened
    opened.table.close()


@pytest.fixture
def theirs(store):
    """What another team has: an experiment, a label schema, a queue with an item."""
    with WorkspaceContext("team-b"):
        experiment = store.create_experiment("reviewed")
        schema = ask(store, experiment)
        queue = line_up(store, experiment, TRACE, schema_ids=[schema.schema_id], users=["ada"])
    return experiment, schema, queue


def test_nothing_of_another_workspace_is_found_changed_or_removed(store, theirs):
    experiment, schema, queue = theirs
    before = everything_in(store.table)
    with WorkspaceContext("team-a"):
        for call in (
            lambda: store.create_label_schema(
                experiment, name="mine", type="feedback", input=schema.input
            ),
            lambda: store.get_label_schema_by_name(experiment, "correct?"),
            lambda: store.list_label_schemas(experiment),
            lambda: store.create_review_queue(experiment, name="mine", queue_type="custom"),
            lambda: store.get_or_create_user_queue(experiment, user="ada"),
            lambda: store.get_review_queue_by_name(experiment, name="triage"),
            lambda: store.list_review_queues(experiment),
            lambda: store.list_review_queues(experiment, item_id=TRACE),
        ):
            with refused("RESOURCE_DOES_NOT_EXIST", f"No Experiment with id={experiment} exists"):
                call()
        for call in (
            lambda: store.get_label_schema(schema.schema_id),
            lambda: store.update_label_schema(schema.schema_id, name="mine"),
        ):
            with refused("RESOURCE_DOES_NOT_EXIST", f"with id '{schema.schema_id}' not found"):
                call()
        for call in (
            lambda: store.get_review_queue(queue.queue_id),
            lambda: store.update_review_queue(queue.queue_id, name="mine"),
            lambda: store.add_items_to_review_queue(queue.queue_id, item_ids=["tr-2"]),
            lambda: store.remove_items_from_review_queue(queue.queue_id, item_ids=[TRACE]),
            lambda: store.list_review_queue_items(queue.queue_id),
            lambda: store.set_review_queue_item_status(
                queue.queue_id, item_id=TRACE, status="complete", completed_by="ada"
            ),
        ):
            with refused("RESOURCE_DOES_NOT_EXIST", f"with id '{queue.queue_id}' not found"):
                call()
        store.delete_label_schema(schema.schema_id)
        store.delete_review_queue(queue.queue_id)
    assert everything_in(store.table) == before


def test_the_questions_of_another_workspace_cannot_be_asked(store, theirs):
    _, schema, _ = theirs
    with WorkspaceContext("team-a"):
        mine = store.create_experiment("reviewed")
        with refused("INVALID_PARAMETER_VALUE", f"not found for experiment '{mine}'"):
            line_up(store, mine, schema_ids=[schema.schema_id])


def test_the_same_names_and_traces_stay_apart(store, theirs):
    """Deleting a trace of one team does not change the queues of another, even with the same id."""
    _, schema, queue = theirs
    with WorkspaceContext("team-a"):
        mine = store.create_experiment("reviewed")
        assert ask(store, mine).schema_id != schema.schema_id
        store.start_trace(make_info(TRACE, mine))
        queue_of_mine = line_up(store, mine, TRACE)
        assert [q.queue_id for q in store.list_review_queues(mine, item_id=TRACE)] == [
            queue_of_mine.queue_id
        ]
        store.delete_traces(mine, trace_ids=[TRACE])
        assert list(store.list_review_queue_items(queue_of_mine.queue_id)) == []
    with WorkspaceContext("team-b"):
        assert len(store.list_review_queue_items(queue.queue_id)) == 1
