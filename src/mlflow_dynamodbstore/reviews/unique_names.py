"""Entities with names that are unique in their experiment: label schemas and review queues.

Each has a guard, an item at the key of its name that holds its id. Entity and guard are created,
renamed and removed in one transaction, and created only while the experiment is active.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.entities.lifecycle_stage import LifecycleStage
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_ALREADY_EXISTS

from mlflow_dynamodbstore.keys.experiments import EXPERIMENT_META, experiment_pk
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.shared.refusals import not_found
from mlflow_dynamodbstore.table.contract import Check, Delete, Patch, Put
from mlflow_dynamodbstore.table.errors import TransactionCancelled
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

_IS_ACTIVE = Attr("lifecycle").eq(LifecycleStage.ACTIVE)


class NameTaken(MlflowException):
    """MLflow's error for a name that another entity of the experiment has."""

    def __init__(self, message: str) -> None:
        super().__init__(message, RESOURCE_ALREADY_EXISTS)


@dataclass(frozen=True)
class UniqueNames:
    """Writes the entities of one kind with the guards of their names."""

    table: Table
    guard_sk: Callable[[str], str]  # the sort key of the guard of a name
    id_of: Callable[[Item], str]
    name_taken: Callable[[Item, str], NameTaken]

    def find(self, experiment_id: str, name: str) -> str | None:
        """The id of the entity that has a name in an experiment."""
        guard = self.table.get(Key(experiment_pk(experiment_id), self.guard_sk(name)))
        return None if guard is None else str(guard["id"])

    def create(self, item: Item) -> None:
        """Write a new entity. Raises ``NameTaken``, or MLflow's error for the experiment."""
        name, experiment = str(item["name"]), Key(str(item["PK"]), EXPERIMENT_META)
        try:
            self.table.transact(
                [
                    Put(self._guard(item, name), condition=ABSENT),
                    Check(experiment, _IS_ACTIVE),
                    Put(item, condition=ABSENT),
                ]
            )
        except TransactionCancelled as cancelled:
            if cancelled.refused(1):
                message = f"No Experiment with id={experiment_id_of(item)} exists"
                raise not_found(message) from cancelled
            if cancelled.refused(0):
                raise self.name_taken(item, name) from cancelled
            raise

    def change(self, item: Item, changes: Item, condition: ConditionBase) -> Item:
        """Change an entity, and its guard if the new name needs another; returns the new item.

        The write is refused if ``condition`` does not hold or if the entity was renamed or removed
        since it was read. Raises ``NameTaken``.
        """
        key, update = self.table.schema.key_of(item), Update(set=changes)
        condition = Attr("name").eq(item["name"]) & condition
        name = str(changes.get("name", item["name"]))
        guard = self._guard(item, name)
        if guard["SK"] == self.guard_sk(str(item["name"])):
            changed = self.table.update(key, update, condition=condition, returns="new")
            assert changed is not None
            return changed
        try:
            self.table.transact(
                [
                    Patch(key, update, condition=condition),
                    Put(guard, condition=ABSENT),
                    Delete(self._guard_key(item)),
                ]
            )
        except TransactionCancelled as cancelled:
            if cancelled.refused(1) and not cancelled.refused(0):
                raise self.name_taken(item, name) from cancelled
            raise
        return update.apply(item)

    def remove(self, item: Item) -> None:
        """Remove an entity and its guard; refused if it was renamed or removed since then."""
        own = Delete(self.table.schema.key_of(item), condition=Attr("name").eq(item["name"]))
        self.table.transact([own, Delete(self._guard_key(item))])

    def _guard(self, item: Item, name: str) -> Item:
        return {"PK": item["PK"], "SK": self.guard_sk(name), "id": self.id_of(item)}

    def _guard_key(self, item: Item) -> Key:
        return Key(str(item["PK"]), self.guard_sk(str(item["name"])))
