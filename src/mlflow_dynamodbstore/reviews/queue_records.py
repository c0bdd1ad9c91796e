"""Review queues, and what MLflow calls their items, as items of the table."""

from __future__ import annotations

from mlflow.genai.review_queues import (
    ReviewItemType,
    ReviewQueue,
    ReviewQueueItem,
    ReviewQueueType,
    ReviewStatus,
)
from mlflow.genai.review_queues.validation import ValidatedQueue

from mlflow_dynamodbstore.keys import reviews as review_keys
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import TTL, Item, Key

ATTACHED = "attached"
"""Attribute of a queue: counts the writes that attached something to it."""


def queue_item(
    key: Key, queue_id: str, queue: ValidatedQueue, created_by: str | None, now: int
) -> Item:
    """A new review queue's own item."""
    return {
        "PK": key.pk,
        "SK": key.sk,
        "name": queue.name,
        "queue_type": str(queue.queue_type),
        "created_by": created_by,
        "created": now,
        "updated": now,
        "users": sorted(queue.users),
        "schema_ids": sorted(queue.schema_ids),
        ATTACHED: 0,
        "lsi1sk": review_keys.lsi1_review_queue(queue_id, now),
    }


def queue_of(item: Item) -> ReviewQueue:
    """The review queue that an item holds."""
    return ReviewQueue(
        queue_id=queue_id_of(item),
        experiment_id=experiment_id_of(item),
        name=item["name"],
        queue_type=ReviewQueueType(item["queue_type"]),
        created_by=item["created_by"],
        creation_time_ms=item["created"],
        last_update_time_ms=item["updated"],
        users=list(item["users"]),
        schema_ids=list(item["schema_ids"]),
    )


def queue_id_of(item: Item) -> str:
    """The review queue that an item is, or belongs to."""
    return str(review_keys.review_queue_id_of(str(item["SK"])))


def pending_item(
    key: Key, queue_id: str, item_id: str, item_type: ReviewItemType, now: int, ttl: int | None
) -> Item:
    """The item of what is newly attached to a review queue."""
    pending = str(ReviewStatus.PENDING)
    item: Item = {
        "PK": key.pk,
        "SK": key.sk,
        "item_type": str(item_type),
        "status": pending,
        "created": now,
        "updated": now,
        "lsi1sk": review_keys.lsi1_review_item(queue_id, pending, item_id, now),
        "lsi4sk": review_keys.lsi4_review_item(item_id, queue_id),
    }
    return item if ttl is None else {**item, TTL: ttl}


def status_change(item: Item, status: ReviewStatus, by: str | None, now: int) -> Update:
    """The update that gives an item another status; pending clears who completed it."""
    moved = review_keys.lsi1_review_item(
        queue_id_of(item), str(status), item_id_of(item), item["created"]
    )
    changes: Item = {"status": str(status), "updated": now, "lsi1sk": moved}
    if status == ReviewStatus.PENDING:
        return Update(set=changes, remove=("completed_by", "completed"))
    return Update(set={**changes, "completed_by": by, "completed": now})


def review_item_of(item: Item) -> ReviewQueueItem:
    """An item of a review queue as MLflow shows it."""
    return ReviewQueueItem(
        queue_id=queue_id_of(item),
        item_type=ReviewItemType(item["item_type"]),
        item_id=item_id_of(item),
        status=ReviewStatus(item["status"]),
        creation_time_ms=item["created"],
        last_update_time_ms=item["updated"],
        completed_by=item.get("completed_by"),
        completed_time_ms=item.get("completed"),
    )


def item_id_of(item: Item) -> str:
    """The id of what is to be reviewed."""
    return str(review_keys.review_item_id_of(str(item["SK"])))
