"""Items of review queues: the traces that are attached to a queue, and their review status.

Each is one item below its queue. LSI1 lists the items of a queue by status and age, so that the few
pending ones of a long queue are found at once; a list of all statuses merges the three. LSI4 leads
from a trace to the queues it is attached to. An item expires with its trace, so that nobody is
asked to review a trace that is gone.
"""

from __future__ import annotations

from functools import partial

from boto3.dynamodb.conditions import Attr
from mlflow.genai.review_queues import ReviewItemType, ReviewQueueItem, ReviewStatus
from mlflow.genai.review_queues.validation import (
    USER_MAX_LENGTH,
    coerce_item_type,
    coerce_status,
    normalize_item_id,
    normalize_user,
    validate_item_ids_for_attach,
)
from mlflow.store.entities.paged_list import PagedList
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.keys import reviews as review_keys
from mlflow_dynamodbstore.keys.traces import trace_locator_key
from mlflow_dynamodbstore.reviews.newest_first import page_of_ranges, requested_page
from mlflow_dynamodbstore.reviews.queue_records import (
    ATTACHED,
    item_id_of,
    pending_item,
    review_item_of,
    status_change,
)
from mlflow_dynamodbstore.reviews.queues import QueueNotFound, ReviewQueues
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.refusals import invalid, not_found
from mlflow_dynamodbstore.table.contract import MAX_TRANSACTION, Delete, Patch, Put
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import TTL, Item, Key

_ITEMS_PER_TRANSACTION = MAX_TRANSACTION - 1  # the queue itself is the other operation
_COUNT_ATTACHING = Update(add={ATTACHED: 1})


class ReviewItems:
    """The items of review queues."""

    def __init__(self, context: Context, review_queues: ReviewQueues) -> None:
        self.table = context.table
        self.review_queues = review_queues

    # --- attaching and detaching ----------------------------------------------------------------

    def add_items_to_review_queue(
        self, queue_id: str, *, item_ids: list[str], item_type: str = "trace"
    ) -> list[ReviewQueueItem]:
        kind = coerce_item_type(item_type)
        wanted = validate_item_ids_for_attach(item_ids)
        queue = review_keys.review_queue_key(self.review_queues.experiment_of(queue_id), queue_id)
        now = get_current_time_millis()
        attached = [
            item
            for some in batched(wanted, _ITEMS_PER_TRANSACTION)
            for item in self._attach(queue, queue_id, some, kind, now)
        ]
        return [review_item_of(item) for item in attached]

    def _attach(
        self, queue: Key, queue_id: str, item_ids: list[str], kind: ReviewItemType, now: int
    ) -> list[Item]:
        """Attach what is not attached yet; returns all items, in the order given.

        An item expires with its trace, if the trace exists and expires.
        """
        keys = {Key(queue.pk, review_keys.review_item(queue_id, one)): one for one in item_ids}
        traces = {one: trace_locator_key(one) for one in item_ids}

        def attempt() -> list[Item]:
            found = self.table.get_many([queue, *keys, *traces.values()])
            if queue not in found:
                raise QueueNotFound(queue_id)
            new = {
                key: pending_item(
                    key, queue_id, one, kind, now, found.get(traces[one], {}).get(TTL)
                )
                for key, one in keys.items()
                if key not in found
            }
            if new:
                puts = [Put(item, condition=ABSENT) for item in new.values()]
                self.table.transact([Patch(queue, _COUNT_ATTACHING, condition=PRESENT), *puts])
            there = {**found, **new}
            return [there[key] for key in keys]

        return optimistically(f"Review queue '{queue_id}'", attempt)

    def remove_items_from_review_queue(self, queue_id: str, *, item_ids: list[str]) -> None:
        wanted = validate_item_ids_for_attach(item_ids)
        queue = self.review_queues.get_item(queue_id)
        pk = str(queue["PK"])
        self.table.write(
            [Delete(Key(pk, review_keys.review_item(queue_id, one))) for one in wanted]
        )

    # --- reviewing ------------------------------------------------------------------------------

    def list_review_queue_items(
        self,
        queue_id: str,
        *,
        status: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> PagedList[ReviewQueueItem]:
        wanted = requested_page(max_results, page_token)
        statuses = list(ReviewStatus) if status is None else [coerce_status(status)]
        queue = self.review_queues.get_item(queue_id)
        ranges = [
            partial(review_keys.review_items_of_status, queue_id, str(one)) for one in statuses
        ]
        found, token = page_of_ranges(self.table, str(queue["PK"]), ranges, item_id_of, wanted)
        return PagedList([review_item_of(item) for item in found], token)

    def set_review_queue_item_status(
        self, queue_id: str, *, item_id: str, status: str, completed_by: str | None = None
    ) -> ReviewQueueItem:
        new_status = coerce_status(status)
        item_id = normalize_item_id(item_id)
        by = None if completed_by is None else normalize_user(completed_by)
        _check_reviewer(new_status, by)
        experiment_id = self.review_queues.experiment_of(queue_id)
        queue = review_keys.review_queue_key(experiment_id, queue_id)
        key = review_keys.review_item_key(experiment_id, queue_id, item_id)
        found = self.table.get_many([queue, key])
        if queue not in found:
            raise QueueNotFound(queue_id)
        item = found.get(key)

        def attempt() -> ReviewQueueItem:
            nonlocal item
            if item is None:
                raise not_found(f"Item '{item_id}' is not attached to review queue '{queue_id}'.")
            if item["status"] == str(new_status):
                return review_item_of(item)  # the first reviewer keeps the credit
            try:
                return review_item_of(self._change_status(item, new_status, by))
            except ConditionFailed as refused:
                item = refused.old
                raise

        return optimistically(f"Item '{item_id}' of review queue '{queue_id}'", attempt)

    def _change_status(self, item: Item, status: ReviewStatus, by: str | None) -> Item:
        """Change the status of an item. Raises ``ConditionFailed`` if it has changed already."""
        changed = self.table.update(
            self.table.schema.key_of(item),
            status_change(item, status, by, get_current_time_millis()),
            condition=Attr("status").eq(item["status"]),
            returns="new",
        )
        assert changed is not None
        return changed


def _check_reviewer(status: ReviewStatus, by: str | None) -> None:
    """Refuse to complete an item without a reviewer, or to reopen it with one."""
    if status == ReviewStatus.PENDING and by is not None:
        raise invalid("`completed_by` must not be set when reopening an item to `pending`.")
    if status != ReviewStatus.PENDING and not by:
        raise invalid(f"`completed_by` is required when setting status to `{status}`.")
    if by is not None and len(by) > USER_MAX_LENGTH:
        raise invalid(
            f"`completed_by` must be at most {USER_MAX_LENGTH} characters; got {len(by)}."
        )
