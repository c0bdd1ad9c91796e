"""Evaluation datasets: create, get, delete, tag."""

from __future__ import annotations

import logging
from typing import Any

from boto3.dynamodb.conditions import Attr
from mlflow.entities import EvaluationDataset
from mlflow.utils.mlflow_tags import MLFLOW_USER
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.evaluation.dataset_experiments import DatasetExperiments
from mlflow_dynamodbstore.evaluation.dataset_items import (
    RECORDS,
    TaggedDataset,
    dataset_digest,
    dataset_entity,
    inline_attributes,
    link_items,
    long_tags,
    tags_change,
)
from mlflow_dynamodbstore.evaluation.dataset_reader import DatasetReader, dataset_not_found
from mlflow_dynamodbstore.keys import evaluation_datasets as dataset_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.shared.bulk import empty_partition
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_items import LONG_TAGS, inline_tags
from mlflow_dynamodbstore.shared.workspaces import WorkspacesInUse
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.request_checks import refuse_oversized
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

_logger = logging.getLogger(__name__)

ID_PREFIX = "d-"


class EvaluationDatasets:
    """The evaluation datasets of a workspace."""

    def __init__(
        self,
        context: Context,
        workspaces_in_use: WorkspacesInUse,
        dataset_reader: DatasetReader,
        dataset_experiments: DatasetExperiments,
    ) -> None:
        self.context = context
        self.table = context.table
        self.workspaces_in_use = workspaces_in_use
        self.dataset_reader = dataset_reader
        self.dataset_experiments = dataset_experiments

    def create_dataset(
        self,
        name: str,
        tags: dict[str, str] | None = None,
        experiment_ids: list[str] | None = None,
    ) -> EvaluationDataset:
        now = get_current_time_millis()
        dataset_id = ID_PREFIX + ids.new_id(now_ms=now)
        workspace = self.context.workspace()
        self.dataset_experiments.refuse_other_workspaces(experiment_ids or [])
        self.workspaces_in_use.note(workspace)
        key, user = dataset_keys.dataset_key(dataset_id), (tags or {}).get(MLFLOW_USER)
        meta: Item = {
            "PK": key.pk,
            "SK": key.sk,
            "name": name,
            "workspace": workspace,
            "digest": dataset_digest(name, now),
            "created": now,
            "updated": now,
            "created_by": user,
            "updated_by": user,
            RECORDS: 0,
            **inline_attributes(tags or {}),
        }
        inside = inline_tags(meta)
        long = {key: value for key, value in (tags or {}).items() if key not in inside}
        refuse_oversized(self.table.schema, [Put(meta)])
        # Tags and links first: nobody sees them before the dataset's own item exists.
        self.table.write(
            [
                *(Put(item) for item in long_tags(key.pk, long)),
                *(Put(item) for item in link_items(dataset_id, experiment_ids or [], now)),
            ]
        )
        entry = dataset_keys.dataset_entry_key(dataset_id, workspace)
        self.table.transact(
            [
                Put(meta, condition=ABSENT),
                Put({"PK": entry.pk, "SK": entry.sk, "name": name}),
            ]
        )
        created = dataset_entity(TaggedDataset(meta, tags or {}), None)
        created.experiment_ids = experiment_ids or []
        return created

    def get_dataset(self, dataset_id: str) -> EvaluationDataset:
        message = "Evaluation dataset with id '{}' not found"
        return self.dataset_reader.to_entity(self.dataset_reader.get(dataset_id, message))

    def delete_dataset(self, dataset_id: str) -> None:
        meta = self.dataset_reader.find(dataset_id)
        if meta is None:
            _logger.warning("Evaluation dataset with id '%s' not found.", dataset_id)
            return
        remove_dataset(self.table, dataset_id, str(meta["workspace"]))

    # --- tags -----------------------------------------------------------------------------------

    def set_dataset_tags(self, dataset_id: str, tags: dict[str, Any]) -> None:
        message = "Could not find evaluation dataset with ID {}"
        meta = self.dataset_reader.get(dataset_id, message)
        texts = {key: str(value) for key, value in tags.items() if value is not None}
        change, long = tags_change(meta, texts)
        self.table.write([Put(item) for item in long])
        try:
            self.table.update(dataset_keys.dataset_key(dataset_id), change, condition=PRESENT)
        except ConditionFailed as error:
            raise dataset_not_found(dataset_id, message) from error

    def delete_dataset_tag(self, dataset_id: str, key: str) -> None:
        meta = self.dataset_reader.find(dataset_id)
        if meta is None:
            _logger.debug("Dataset %s not found; it may have been deleted.", dataset_id)
            return
        if LONG_TAGS in meta:
            # First: otherwise an earlier, longer value would show again.
            self.table.delete(Key(str(meta["PK"]), dataset_keys.dataset_tag(key)))
        if key in inline_tags(meta):
            (name,) = inline_attributes({key: ""})
            try:
                self.table.update(
                    dataset_keys.dataset_key(dataset_id),
                    Update(remove=(name,)),
                    condition=PRESENT,
                )
            except ConditionFailed:
                _logger.debug("Dataset %s was deleted at the same time.", dataset_id)


def remove_dataset(table: Table, dataset_id: str, workspace: str) -> None:
    """Remove a dataset with all its items; its own first, so that nobody finds half of it."""
    pk = dataset_keys.dataset_pk(dataset_id)
    uses = table.items(Query(pk, where=dataset_keys.DATASET_EXPERIMENTS.on(), keys_only=True))
    users = [str(dataset_keys.dataset_experiment_of(str(use["SK"]))) for use in uses]
    own = ABSENT | Attr("workspace").eq(workspace)
    table.transact(
        [
            Delete(dataset_keys.dataset_key(dataset_id), condition=own),
            Delete(dataset_keys.dataset_entry_key(dataset_id, workspace)),
        ]
    )
    table.write([Delete(dataset_keys.dataset_link_key(dataset_id, user)) for user in users])
    empty_partition(table, pk)


def move_dataset(table: Table, dataset_id: str, entry: Item, workspace: str) -> None:
    """Move a dataset to another workspace; ``entry`` lists it in the one it leaves."""
    there = dataset_keys.dataset_entry_key(dataset_id, workspace)
    table.transact(
        [
            Patch(
                dataset_keys.dataset_key(dataset_id),
                Update(set={"workspace": workspace}),
                condition=PRESENT,
            ),
            Put({**entry, "PK": there.pk, "SK": there.sk}),
            Delete(table.schema.key_of(entry)),
        ]
    )
