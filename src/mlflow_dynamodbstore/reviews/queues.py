"""Review queues: which traces of an experiment are to be reviewed, by whom, and what is asked.

A queue is one item that holds its users (ten at most) and questions. Its name is unique in its
experiment, regardless of case. Its questions can be changed only while nothing is attached to it:
attaching raises a count in the queue's own item, in the same transaction, so a change of questions
that found the queue empty is refused if something has been attached since.
"""

from __future__ import annotations

import logging

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.exceptions import MlflowException
from mlflow.genai.review_queues import ReviewQueue, ReviewQueueType
from mlflow.genai.review_queues.validation import (
    normalize_schema_ids,
    normalize_user,
    normalize_users,
    validate_custom_queue_name,
    validate_queue_for_create,
    validate_queue_owner,
)
from mlflow.protos.databricks_pb2 import (
    RESOURCE_DOES_NOT_EXIST,
)
from mlflow.store.entities.paged_list import PagedList
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import reviews as review_keys
from mlflow_dynamodbstore.keys.experiments import experiment_pk
from mlflow_dynamodbstore.reviews.attachments import QueueAttachments
from mlflow_dynamodbstore.reviews.newest_first import page_of_items, page_of_ranges, requested_page
from mlflow_dynamodbstore.reviews.queue_records import (
    ATTACHED,
    queue_id_of,
    queue_item,
    queue_of,
)
from mlflow_dynamodbstore.reviews.reviewed_experiments import (
    QUEUE_PREFIX,
    ReviewedExperiments,
)
from mlflow_dynamodbstore.reviews.unique_names import NameTaken, UniqueNames
from mlflow_dynamodbstore.shared.bulk import empty_partition
from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.optimistic import Outdated, optimistically
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.shared.refusals import already_exists, invalid, not_found
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import Item, Key

_logger = logging.getLogger(__name__)

PAGE = 20
"""Items read at a time in search of one that has not expired."""


class ReviewQueues:
    """The review queues of experiments."""

    def __init__(
        self,
        context: Context,
        reviewed_experiments: ReviewedExperiments,
        queue_attachments: QueueAttachments,
    ) -> None:
        self.table = context.table
        self.reviewed_experiments = reviewed_experiments
        self.queue_attachments = queue_attachments
        self._names = UniqueNames(
            context.table, review_keys.review_queue_name, queue_id_of, _name_taken
        )

    # --- creating -------------------------------------------------------------------------------

    def create_review_queue(
        self,
        experiment_id: str,
        *,
        name: str,
        queue_type: str,
        created_by: str | None = None,
        users: list[str] | None = None,
        schema_ids: list[str] | None = None,
    ) -> ReviewQueue:
        valid = validate_queue_for_create(
            name=name, queue_type=queue_type, users=users, schema_ids=schema_ids
        )
        experiment_id = self.reviewed_experiments.active_id(experiment_id)
        self._check_questions(experiment_id, valid.schema_ids)
        queue_id = QUEUE_PREFIX + ids.new_id(experiment_id)
        key = review_keys.review_queue_key(experiment_id, queue_id)
        item = queue_item(key, queue_id, valid, created_by, get_current_time_millis())
        self._names.create(item)
        return queue_of(item)

    def get_or_create_user_queue(self, experiment_id: str, *, user: str) -> ReviewQueue:
        name = normalize_user(user)

        def attempt() -> ReviewQueue:
            active_id = self.reviewed_experiments.active_id(experiment_id)
            found = self._find_by_name(active_id, name)
            if found is not None:
                return _user_queue(found, name)
            try:
                return self.create_review_queue(
                    active_id, name=name, queue_type="user", created_by=name
                )
            except NameTaken as error:
                raise Outdated from error  # another call has created it: return that one

        return optimistically(f"Review queue '{name}'", attempt)

    # --- finding --------------------------------------------------------------------------------

    def get_review_queue(self, queue_id: str) -> ReviewQueue:
        return queue_of(self.get_item(queue_id))

    def get_review_queue_by_name(self, experiment_id: str, *, name: str) -> ReviewQueue:
        experiment_id = self.reviewed_experiments.active_id(experiment_id)
        item = self._find_by_name(experiment_id, name)
        if item is None:
            raise not_found(
                f"Review queue with name '{name}' not found for experiment '{experiment_id}'."
            )
        return queue_of(item)

    def list_review_queues(
        self,
        experiment_id: str,
        *,
        user: str | None = None,
        item_id: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
    ) -> PagedList[ReviewQueue]:
        wanted = requested_page(max_results, page_token)
        pk = experiment_pk(self.reviewed_experiments.active_id(experiment_id))
        name = None if user is None else normalize_user(user)
        if item_id is None:
            of_user = None if name is None else Attr("users").contains(name)
            ranges = [review_keys.review_queues_by_age]
            found, token = page_of_ranges(self.table, pk, ranges, queue_id_of, wanted, of_user)
        else:
            queues = self._queues_with(pk, item_id)
            matching = [queue for queue in queues if name is None or name in queue["users"]]
            found, token = page_of_items(matching, queue_id_of, wanted)
        return PagedList([queue_of(item) for item in found], token)

    def _queues_with(self, pk: str, item_id: str) -> list[Item]:
        """The queues of an experiment that have an item with this id."""
        queues = {
            item: Key(pk, review_keys.review_queue(str(review_keys.review_queue_id_of(item.sk))))
            for item in self.queue_attachments.find(pk, item_id)
        }
        found = self.table.get_many([*queues, *queues.values()])
        return [found[queue] for item, queue in queues.items() if {item, queue} <= found.keys()]

    def _find_by_name(self, experiment_id: str, name: str) -> Item | None:
        queue_id = self._names.find(experiment_id, name)
        return None if queue_id is None else self._find(queue_id)

    def _find(self, queue_id: str) -> Item | None:
        experiment_id = self.reviewed_experiments.id_in(queue_id, QUEUE_PREFIX)
        if experiment_id is None:
            return None
        return self.table.get(review_keys.review_queue_key(experiment_id, queue_id))

    def experiment_of(self, queue_id: str) -> str:
        """The experiment that the id of a queue names; the queue itself may not exist."""
        experiment_id = self.reviewed_experiments.id_in(queue_id, QUEUE_PREFIX)
        if experiment_id is None:
            raise QueueNotFound(queue_id)
        return experiment_id

    def get_item(self, queue_id: str) -> Item:
        item = self._find(queue_id)
        if item is None:
            raise QueueNotFound(queue_id)
        return item

    # --- changing -------------------------------------------------------------------------------

    def update_review_queue(
        self,
        queue_id: str,
        *,
        users: list[str] | None = None,
        schema_ids: list[str] | None = None,
        name: str | None = None,
        new_owner: str | None = None,
    ) -> ReviewQueue:
        def attempt() -> ReviewQueue:
            item = self.get_item(queue_id)
            if item["queue_type"] == str(ReviewQueueType.USER):
                raise invalid(
                    "A user queue's name, assigned user, schemas, and owner are fixed "
                    "and cannot be updated."
                )
            changes: Item = {}
            if new_owner is not None:
                changes["created_by"] = validate_queue_owner(new_owner)
            if name is not None:
                changes["name"] = validate_custom_queue_name(name)
            if users is not None:
                changes["users"] = sorted(normalize_users(users))
            same: ConditionBase = PRESENT
            if schema_ids is not None:
                changes["schema_ids"] = self._replaced_questions(item, schema_ids)
                same = Attr(ATTACHED).eq(item[ATTACHED])
            if not changes:
                return queue_of(item)
            changes["updated"] = get_current_time_millis()
            return queue_of(self._names.change(item, changes, same))

        return optimistically(f"Review queue '{queue_id}'", attempt)

    def _replaced_questions(self, item: Item, schema_ids: list[str]) -> list[str]:
        """New questions for a queue, refused if something is attached to it."""
        within = review_keys.review_items(queue_id_of(item)).on()
        attached = Query(str(item["PK"]), within, limit=PAGE)
        if next(self.table.items(attached), None) is not None:
            raise invalid(
                "A review queue's questions are locked once items are assigned to it. "
                "Remove the items before changing its questions."
            )
        normalized: list[str] = normalize_schema_ids(schema_ids)
        self._check_questions(experiment_id_of(item), normalized)
        return sorted(normalized)

    def _check_questions(self, experiment_id: str, schema_ids: list[str]) -> None:
        """Refuse label schemas that the experiment does not have."""
        keys = {one: review_keys.label_schema_key(experiment_id, one) for one in schema_ids}
        found = self.table.get_many(keys.values())
        if missing := [one for one, key in keys.items() if key not in found]:
            raise invalid(
                f"Label schema id(s) {missing} not found for experiment '{experiment_id}'."
            )

    def delete_review_queue(self, queue_id: str) -> None:
        def attempt() -> None:
            item = self._find(queue_id)
            if item is None:
                _logger.debug("There is no review queue with id '%s' to delete.", queue_id)
                return
            # The queue first: then nothing can be attached to it.
            self._names.remove(item)
            within = review_keys.review_items(queue_id).on()
            empty_partition(self.table, str(item["PK"]), where=within)

        optimistically(f"Review queue '{queue_id}'", attempt)


class QueueNotFound(MlflowException):
    """MLflow's error for a review queue that the active workspace does not have."""

    def __init__(self, queue_id: str) -> None:
        super().__init__(f"Review queue with id '{queue_id}' not found.", RESOURCE_DOES_NOT_EXIST)


def _name_taken(_: Item, name: str) -> NameTaken:
    return NameTaken(
        f"Review queue with name '{name}' already exists (names are case-insensitive)."
    )


def _user_queue(item: Item, name: str) -> ReviewQueue:
    """The user queue in an item; refused if it is another type of queue with a user's name."""
    if item["queue_type"] != str(ReviewQueueType.USER):
        raise already_exists(
            f"A non-user queue named '{name}' already exists; cannot get-or-create "
            f"a user queue with that name."
        )
    return queue_of(item)
