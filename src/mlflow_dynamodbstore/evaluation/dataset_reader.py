"""Finding evaluation datasets, and showing them as MLflow does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mlflow.entities import EvaluationDataset
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.evaluation.dataset_items import (
    TaggedDataset,
    all_tags,
    dataset_entity,
    schema_key,
    schema_text,
)
from mlflow_dynamodbstore.keys import evaluation_datasets as dataset_keys
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.refusals import not_found
from mlflow_dynamodbstore.table.values import Item

NOT_FOUND = "Dataset '{}' not found."


class DatasetReader:
    """The evaluation datasets of the active workspace, found by their ids."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.table = context.table

    def find(self, dataset_id: str) -> Item | None:
        """A dataset's own item, or None when the active workspace has no such dataset."""
        return self._if_own(self.table.get(dataset_keys.dataset_key(dataset_id)))

    def get(self, dataset_id: str, message: str = NOT_FOUND) -> Item:
        """A dataset's own item; raises MLflow's error with this message if there is none."""
        meta = self.find(dataset_id)
        if meta is None:
            raise dataset_not_found(dataset_id, message)
        return meta

    def find_many(self, dataset_ids: Iterable[str]) -> list[Item]:
        """The datasets with these ids that the active workspace has, in the order given."""
        wanted = dict.fromkeys(dataset_keys.dataset_key(dataset_id) for dataset_id in dataset_ids)
        found = self.table.get_many(wanted)
        return [meta for key in wanted if (meta := self._if_own(found.get(key))) is not None]

    def _if_own(self, meta: Item | None) -> Item | None:
        if meta is None or meta["workspace"] != self.context.workspace():
            return None
        return meta

    def with_tags(self, metas: Sequence[Item]) -> list[TaggedDataset]:
        """Datasets with their tags; a dataset with long tags costs one read, in parallel."""
        tags = self.table.map(lambda meta: all_tags(self.table, meta), metas)
        return [TaggedDataset(meta, some) for meta, some in zip(metas, tags, strict=True)]

    def to_entities(self, datasets: Sequence[TaggedDataset]) -> list[EvaluationDataset]:
        """Datasets as MLflow shows them."""
        keys = [schema_key(dataset.meta) for dataset in datasets]
        schemas = self.table.get_many(keys)
        return [
            dataset_entity(dataset, schema_text(self.table, schemas.get(key)))
            for dataset, key in zip(datasets, keys, strict=True)
        ]

    def to_entity(self, meta: Item) -> EvaluationDataset:
        return self.to_entities(self.with_tags([meta]))[0]


def dataset_not_found(dataset_id: str, message: str = NOT_FOUND) -> MlflowException:
    """MLflow's error for a dataset that the active workspace does not have."""
    return not_found(message.format(dataset_id))
