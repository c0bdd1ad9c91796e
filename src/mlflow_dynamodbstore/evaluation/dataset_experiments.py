"""Which experiments use which evaluation datasets."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from mlflow.entities import EvaluationDataset
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.evaluation.dataset_items import link_items
from mlflow_dynamodbstore.evaluation.dataset_reader import DatasetReader, dataset_not_found
from mlflow_dynamodbstore.keys import evaluation_datasets as dataset_keys
from mlflow_dynamodbstore.keys.experiments import experiment_key
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.refusals import not_found
from mlflow_dynamodbstore.table.contract import Delete, Put, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

_logger = logging.getLogger(__name__)

_NOT_FOUND = "Dataset '{}' not found"  # MLflow's message here has no full stop


class DatasetExperiments:
    """Links between datasets and experiments, each stored on both sides."""

    def __init__(self, context: Context, dataset_reader: DatasetReader) -> None:
        self.context = context
        self.table = context.table
        self.dataset_reader = dataset_reader

    def get_dataset_experiment_ids(self, dataset_id: str) -> list[str]:
        if self.dataset_reader.find(dataset_id) is None:
            return []
        linked = self._linked(dataset_id)
        wanted = self._accessible(linked) if self.context.has_workspaces() else linked
        return sorted(wanted, key=lambda one: (linked[one], one))

    def add_dataset_to_experiments(
        self, dataset_id: str, experiment_ids: list[str]
    ) -> EvaluationDataset:
        meta = self.dataset_reader.get(dataset_id, _NOT_FOUND)
        wanted = list(dict.fromkeys(map(str, experiment_ids)))
        accessible = self._accessible(wanted)
        for experiment_id in wanted:
            if experiment_id not in accessible:
                raise not_found(f"No Experiment with id={experiment_id}")
        now = get_current_time_millis()
        items = link_items(dataset_id, wanted, now)
        self.table.write([Put(item, condition=ABSENT) for item in items])
        return self._mark_updated(meta, dataset_id, now)

    def remove_dataset_from_experiments(
        self, dataset_id: str, experiment_ids: list[str]
    ) -> EvaluationDataset:
        meta = self.dataset_reader.get(dataset_id, _NOT_FOUND)
        linked = self._linked(dataset_id)
        for experiment_id in map(str, experiment_ids):
            if experiment_id not in linked:
                _logger.warning(
                    "Dataset '%s' was not associated with experiment '%s'",
                    dataset_id,
                    experiment_id,
                )
        unlinked = [one for one in dict.fromkeys(map(str, experiment_ids)) if one in linked]
        if not unlinked:
            return self.dataset_reader.to_entity(meta)
        pk = dataset_keys.dataset_pk(dataset_id)
        self.table.write(
            [
                *(Delete(dataset_keys.dataset_link_key(dataset_id, one)) for one in unlinked),
                *(Delete(Key(pk, dataset_keys.dataset_experiment(one))) for one in unlinked),
            ]
        )
        return self._mark_updated(meta, dataset_id, get_current_time_millis())

    def _linked(self, dataset_id: str) -> dict[str, int]:
        """The experiments that use a dataset, and since when."""
        query = Query(
            dataset_keys.dataset_pk(dataset_id), where=dataset_keys.DATASET_EXPERIMENTS.on()
        )
        return {
            str(dataset_keys.dataset_experiment_of(str(item["SK"]))): int(item["created"])
            for item in self.table.items(query)
        }

    def _accessible(self, experiment_ids: Iterable[str]) -> set[str]:
        """Those of the experiments that the active workspace has, deleted ones included."""
        wanted = {experiment_key(one): one for one in experiment_ids}
        workspace = self.context.workspace()
        found = self.table.get_many(wanted)
        return {wanted[key] for key, meta in found.items() if meta["workspace"] == workspace}

    def refuse_other_workspaces(self, experiment_ids: list[str]) -> None:
        """Refuse experiments of other workspaces. MLflow accepts ids that no experiment has."""
        if not experiment_ids or not self.context.has_workspaces():
            return
        wanted = {experiment_key(str(one)): one for one in experiment_ids}
        for key, meta in self.table.get_many(wanted).items():
            if meta["workspace"] != self.context.workspace():
                raise not_found(f"No Experiment with id={wanted[key]}")

    def _mark_updated(self, meta: Item, dataset_id: str, now: int) -> EvaluationDataset:
        try:
            changed = self.table.update(
                self.table.schema.key_of(meta),
                Update(set={"updated": now}),
                condition=PRESENT,
                returns="new",
            )
        except ConditionFailed as error:
            raise dataset_not_found(dataset_id, _NOT_FOUND) from error
        assert changed is not None
        return self.dataset_reader.to_entity(changed)
