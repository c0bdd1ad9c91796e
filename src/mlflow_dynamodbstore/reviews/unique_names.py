"""Things of an experiment whose names are unique in it.

Beside such a thing stands the guard of its name, an item that names it. Both are written, renamed
and removed in one transaction, and both only while the experiment is active or there at all.
"""

from __future__ import annotations

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.entities.lifecycle_stage import LifecycleStage
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST

from mlflow_dynamodbstore.keys.experiments import EXPERIMENT_META
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.table.contract import Check, Delete, Patch, Put
from mlflow_dynamodbstore.table.errors import TransactionCancelled
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

_IS_ACTIVE = Attr("lifecycle").eq(LifecycleStage.ACTIVE)


class NameTaken(Exception):
    """Another thing of the experiment has this name."""


def create(table: Table, item: Item, guard: Key, thing_id: str) -> None:
    """Write a new thing. Raises ``NameTaken``, and MLflow's error when the experiment has gone."""
    meta = Key(str(item["PK"]), EXPERIMENT_META)
    try:
        table.transact(
            [
                Put(_guard(guard, thing_id), condition=ABSENT),
                Check(meta, _IS_ACTIVE),
                Put(item, condition=ABSENT),
            ]
        )
    except TransactionCancelled as cancelled:
        if cancelled.refused(1):
            raise MlflowException(
                f"No Experiment with id={experiment_id_of(item)} exists", RESOURCE_DOES_NOT_EXIST
            ) from cancelled
        if cancelled.refused(0):
            raise NameTaken from cancelled
        raise


def change(
    table: Table,
    item: Item,
    update: Update,
    guards: tuple[Key, Key],
    thing_id: str,
    condition: ConditionBase,
) -> Item:
    """Change a thing, and its guard where that is another one now; the thing as it then is.

    An attempt of an optimistic change: refused when ``condition`` does not hold of the thing in
    the table or when the thing has another name than ``item`` says. Raises ``NameTaken``.
    """
    key = table.schema.key_of(item)
    condition = Attr("name").eq(item["name"]) & condition
    before, after = guards
    if before == after:
        changed = table.update(key, update, condition=condition, returns="new")
        assert changed is not None
        return changed
    try:
        table.transact(
            [
                Patch(key, update, condition=condition),
                Put(_guard(after, thing_id), condition=ABSENT),
                Delete(before),
            ]
        )
    except TransactionCancelled as cancelled:
        if cancelled.refused(1) and not cancelled.refused(0):
            raise NameTaken from cancelled
        raise
    return update.apply(item)


def remove(table: Table, item: Item, guard: Key) -> None:
    """Remove a thing and its guard; refused when the thing has gone or has another name."""
    own = Delete(table.schema.key_of(item), condition=Attr("name").eq(item["name"]))
    table.transact([own, Delete(guard)])


def _guard(key: Key, thing_id: str) -> Item:
    return {"PK": key.pk, "SK": key.sk, "id": thing_id}
