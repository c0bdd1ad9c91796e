"""Datasets that runs read, in a database and in a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlflow.entities import Dataset

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.places import RunPlace, experiment_id_of
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import Item, Key, Value
from mlflow_dynamodbstore.tracking.inputs import CONTENTS, DatasetUse, dataset_hash
from mlflow_dynamodbstore.transfer.sql.column_values import stable_id
from mlflow_dynamodbstore.transfer.sql.database import Row
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntitySource
from mlflow_dynamodbstore.transfer.sql.items import ListedItemStore
from mlflow_dynamodbstore.transfer.sql.rows import RowStore

_CONTENTS = {
    "source_type": "dataset_source_type",
    "source": "dataset_source",
    "schema": "dataset_schema",
    "profile": "dataset_profile",
}


def dataset_uuid(experiment_id: str, name: str, digest: str) -> str:
    """The id of a dataset in a database that an export writes."""
    return stable_id("dataset", experiment_id, name, digest)


class DatasetRows(RowStore):
    """Datasets in a database."""

    table = "datasets"
    key = ("experiment_id", "name", "digest")
    columns = ("experiment_id", *_CONTENTS.values())

    def own_row(self, entity: Entity) -> Row:
        return {**super().own_row(entity), "dataset_uuid": dataset_uuid(*entity.key)}


class DatasetItems(ListedItemStore):
    """Datasets in a table: an item each in their experiment, and parts for large ones."""

    def _keys(self, entities: Sequence[Entity]) -> Iterator[Key]:
        for experiment_id, name, digest in (entity.key for entity in entities):
            sk = experiment_keys.dataset(dataset_hash(name, digest))
            yield Key(experiment_keys.experiment_pk(experiment_id), sk)

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        heads: list[Item] = []
        parts: list[Item] = []
        for entity in entities:
            use = self._use(entity)
            stored = use.stored()
            parts += [put.item for put in stored.parts]
            heads.append({**use.head, **stored.attributes})
        self.transfer_table.put(parts)
        self.transfer_table.put(heads)

    def _use(self, entity: Entity) -> DatasetUse:
        experiment_id, name, digest = entity.key
        contents = {ours: entity.values[theirs] for ours, theirs in _CONTENTS.items()}
        return DatasetUse(
            RunPlace(experiment_id, ""), Dataset(name=name, digest=digest, **contents), {}
        )

    def _own_items(self) -> Iterator[Item]:
        for experiment_id in self.transfer_table.experiment_ids():
            query = Query(
                experiment_keys.experiment_pk(experiment_id), where=experiment_keys.DATASETS.on()
            )
            yield from (item for item in self.table.items(query) if CONTENTS in item)

    def _entities(self, heads: Sequence[Item]) -> list[Entity]:
        contents = large_values.load_many(self.table, heads, CONTENTS)
        return [_entity(head, content) for head, content in zip(heads, contents, strict=True)]


def _entity(head: Item, contents: Value) -> Entity:
    experiment_id = experiment_id_of(head)
    values = {theirs: contents[ours] for ours, theirs in _CONTENTS.items()}
    return Entity(
        (experiment_id, head["name"], head["digest"]), {"experiment_id": experiment_id, **values}
    )
