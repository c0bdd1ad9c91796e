"""Label schemas and review queues for tests, created in one call each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mlflow.genai.label_schemas.label_schemas import InputPassFail, LabelSchema
from mlflow.genai.review_queues import ReviewQueue

from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore


def ask(store: DynamoDBTrackingStore, experiment: Any, name: str = "correct?") -> LabelSchema:
    """A label schema with two answers."""
    return store.create_label_schema(
        experiment,
        name=name,
        type="feedback",
        input=InputPassFail(positive_label="Yes", negative_label="No"),
    )


def line_up(
    store: DynamoDBTrackingStore,
    experiment: str,
    *item_ids: str,
    name: str = "triage",
    **options: Any,
) -> ReviewQueue:
    """A review queue with something in it."""
    queue = store.create_review_queue(experiment, name=name, queue_type="custom", **options)
    if item_ids:
        store.add_items_to_review_queue(queue.queue_id, item_ids=list(item_ids))
    return queue


def pages(call: Callable[..., Any], size: int) -> Iterator[list[Any]]:
    """All pages of a list."""
    page = call(max_results=size)
    yield list(page)
    while page.token is not None:
        page = call(max_results=size, page_token=page.token)
        yield list(page)
