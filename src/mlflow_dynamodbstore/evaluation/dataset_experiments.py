"""Which experiments use which evaluation datasets."""

from __future__ import annotations

import logging

from mlflow.entities import EvaluationDataset
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.evaluation.dataset_items import link_items
from mlflow_dynamodbstore.evaluation.dataset_reader import DatasetReader
from mlflow_dynamodbstore.keys import evaluation as evaluation_keys
from mlflow_dynamodbstore.keys.experiments import experiment_key
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.table.contract import Delete, Put, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

_logger = logging.getLogger(__name__)


class DatasetExperiments:
    """Links between datasets and experiments, kept on either side."""

    def __init__(self, context: Context, dataset_reader: DatasetReader) -> None:
        self.context = context
        self.table = context.table
        self.dataset_reader = dataset_reader

    def get_dataset_experiment_ids(self, dataset_id: str) -> list[str]:
        if self.dataset_reader.find(dataset_id) is None:
            return []
        users = self._users(dataset_id)
        if self.context.has_workspaces():
            own = self._accessible_experiments(users)
            users = {user: created for user, created in users.items() if user in own}
        return sorted(users, key=lambda user: (users[user], user))

    def add_dataset_to_experiments(
        self, dataset_id: str, experiment_ids: list[str]
    ) -> EvaluationDataset:
        meta = self._get_dataset(dataset_id)
        wanted = list(dict.fromkeys(map(str, experiment_ids)))
        there = self._accessible_experiments(wanted)
        for experiment_id in wanted:
            if experiment_id not in there:
                raise MlflowException(
                    f"No Experiment with id={experiment_id}", RESOURCE_DOES_NOT_EXIST
                )
        now = get_current_time_millis()
        items = link_items(dataset_id, wanted, now)
        self.table.write([Put(item, condition=ABSENT) for item in items])
        return self._set_updated(meta, dataset_id, now)

    def remove_dataset_from_experiments(
        self, dataset_id: str, experiment_ids: list[str]
    ) -> EvaluationDataset:
        meta = self._get_dataset(dataset_id)
        users = self._users(dataset_id)
        for experiment_id in map(str, experiment_ids):
            if experiment_id not in users:
                _logger.warning(
                    "Dataset '%s' was not associated with experiment '%s'",
                    dataset_id,
                    experiment_id,
                )
        gone = [user for user in dict.fromkeys(map(str, experiment_ids)) if user in users]
        if not gone:
            return self.dataset_reader.to_entity(meta)
        pk = evaluation_keys.dataset_pk(dataset_id)
        self.table.write(
            [
                *(Delete(evaluation_keys.dataset_link_key(dataset_id, user)) for user in gone),
                *(Delete(Key(pk, evaluation_keys.dataset_experiment(user))) for user in gone),
            ]
        )
        return self._set_updated(meta, dataset_id, get_current_time_millis())

    def _get_dataset(self, dataset_id: str) -> Item:
        meta = self.dataset_reader.find(dataset_id)
        if meta is None:
            raise _not_found(dataset_id)
        return meta

    def _users(self, dataset_id: str) -> dict[str, int]:
        """The experiments that use a dataset, and since when."""
        query = Query(
            evaluation_keys.dataset_pk(dataset_id), where=evaluation_keys.DATASET_EXPERIMENTS.on()
        )
        return {
            str(evaluation_keys.dataset_experiment_of(str(item["SK"]))): int(item["created"])
            for item in self.table.items(query)
        }

    def _accessible_experiments(self, experiment_ids: list[str] | dict[str, int]) -> set[str]:
        """Those among some experiments that the active workspace has, in whatever stage."""
        wanted = {experiment_key(number): number for number in experiment_ids}
        workspace = self.context.workspace()
        found = self.table.get_many(wanted)
        return {wanted[key] for key, meta in found.items() if meta["workspace"] == workspace}

    def refuse_other_workspaces(self, experiment_ids: list[str]) -> None:
        """Refuse experiments of other workspaces; those that nobody has are let pass by MLflow."""
        if not experiment_ids or not self.context.has_workspaces():
            return
        wanted = {experiment_key(str(number)): number for number in experiment_ids}
        for key, meta in self.table.get_many(wanted).items():
            if meta["workspace"] != self.context.workspace():
                raise MlflowException(
                    f"No Experiment with id={wanted[key]}", RESOURCE_DOES_NOT_EXIST
                )

    def _set_updated(self, meta: Item, dataset_id: str, now: int) -> EvaluationDataset:
        try:
            changed = self.table.update(
                self.table.schema.key_of(meta),
                Update(set={"updated": now}),
                condition=PRESENT,
                returns="new",
            )
        except ConditionFailed as error:
            raise _not_found(dataset_id) from error
        assert changed is not None
        return self.dataset_reader.to_entity(changed)


def _not_found(dataset_id: str) -> MlflowException:
    return MlflowException(f"Dataset '{dataset_id}' not found", RESOURCE_DOES_NOT_EXIST)
