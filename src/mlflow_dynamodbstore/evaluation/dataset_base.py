"""What all that concerns evaluation datasets shares: finding and showing them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mlflow.entities import EvaluationDataset
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST

from mlflow_dynamodbstore.evaluation.dataset_items import (
    Candidate,
    all_tags,
    dataset_entity,
    schema_key,
    schema_text,
)
from mlflow_dynamodbstore.keys import evaluation_datasets as dataset_keys
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.table.values import Item


class DatasetReader:
    """Reading evaluation datasets of the active workspace."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.table = context.table

    def find_dataset(self, dataset_id: str) -> Item | None:
        """A dataset's own item, or None when the active workspace has no such dataset."""
        return self._own_dataset(self.table.get(dataset_keys.dataset_key(dataset_id)))

    def accessible_dataset(self, dataset_id: str) -> Item:
        meta = self.find_dataset(dataset_id)
        if meta is None:
            raise dataset_not_found(dataset_id)
        return meta

    def own_datasets(self, dataset_ids: Iterable[str]) -> list[Item]:
        """The datasets of these ids that the active workspace has, in the order given."""
        wanted = dict.fromkeys(dataset_keys.dataset_key(dataset_id) for dataset_id in dataset_ids)
        found = self.table.get_many(wanted)
        return [meta for key in wanted if (meta := self._own_dataset(found.get(key))) is not None]

    def _own_dataset(self, meta: Item | None) -> Item | None:
        if meta is None or meta["workspace"] != self.context.workspace():
            return None
        return meta

    def dataset_candidates(self, metas: Sequence[Item]) -> list[Candidate]:
        """Datasets with their tags; those with long tags cost a read each, side by side."""
        tags = self.table.map(lambda meta: all_tags(self.table, meta), metas)
        return [Candidate(meta, own) for meta, own in zip(metas, tags, strict=True)]

    def dataset_entities(self, candidates: Sequence[Candidate]) -> list[EvaluationDataset]:
        """Datasets as MLflow shows them."""
        places = [schema_key(candidate.meta) for candidate in candidates]
        schemas = self.table.get_many(places)
        return [
            dataset_entity(candidate, schema_text(self.table, schemas.get(place)))
            for candidate, place in zip(candidates, places, strict=True)
        ]

    def dataset_entity(self, meta: Item) -> EvaluationDataset:
        return self.dataset_entities(self.dataset_candidates([meta]))[0]


def dataset_not_found(dataset_id: str) -> MlflowException:
    """MLflow's error for a dataset that does not exist, or not in this workspace."""
    return MlflowException(f"Dataset '{dataset_id}' not found.", RESOURCE_DOES_NOT_EXIST)
