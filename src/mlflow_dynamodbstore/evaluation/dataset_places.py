"""Where an evaluation dataset is known: in its workspace, and in the experiments that use it."""

from __future__ import annotations

from collections.abc import Iterable

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.keys import evaluation_datasets as dataset_keys
from mlflow_dynamodbstore.shared.bulk import empty_partition
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item


def link_items(dataset_id: str, experiment_ids: Iterable[str], now: int) -> list[Item]:
    """The items that say that experiments use a dataset: one on either side."""
    items: list[Item] = []
    for experiment_id in dict.fromkeys(map(str, experiment_ids)):
        pk, link = (
            dataset_keys.dataset_pk(dataset_id),
            dataset_keys.dataset_link_key(dataset_id, experiment_id),
        )
        items.append(
            {"PK": pk, "SK": dataset_keys.dataset_experiment(experiment_id), "created": now}
        )
        items.append({"PK": link.pk, "SK": link.sk})
    return items


def remove_dataset(table: Table, dataset_id: str, workspace: str) -> None:
    """Remove a dataset and all that belongs to it; itself first, so that nobody finds half."""
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
    """Move a dataset, listed by an entry, to another workspace."""
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
