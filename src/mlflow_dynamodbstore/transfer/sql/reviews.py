"""Label schemas and review queues, in a database and in a table.

Our own ids name their experiment; those of MLflow's databases do not, so a locator tells it.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import reviews as review_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.keys.experiments import experiment_pk
from mlflow_dynamodbstore.keys.traces import trace_locator_key
from mlflow_dynamodbstore.reviews.label_schema_records import label_schema_id_of
from mlflow_dynamodbstore.reviews.queue_records import ATTACHED, item_id_of, queue_id_of
from mlflow_dynamodbstore.reviews.reviewed_experiments import ID_PREFIXES, locator
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import TTL, Item, Key
from mlflow_dynamodbstore.transfer.sql.database import Row
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntityKey, EntitySource
from mlflow_dynamodbstore.transfer.sql.items import ListedItemStore
from mlflow_dynamodbstore.transfer.sql.rows import ChildTable, RowStore

_SCHEMA = {
    "name": "name",
    "type": "type",
    "instruction": "instruction",
    "enable_comment": "enable_comment",
    "input_type": "input_type",
    "created_by": "created_by",
    "created": "created_time",
    "updated": "last_update_time",
    "is_default": "is_default",
}
_QUEUE = {
    "name": "name",
    "queue_type": "queue_type",
    "created_by": "created_by",
    "created": "creation_time_ms",
    "updated": "last_update_time_ms",
}
_ITEM = {
    "status": "status",
    "completed_by": "completed_by",
    "completed": "completed_time_ms",
    "created": "creation_time_ms",
    "updated": "last_update_time_ms",
}


class LabelSchemaRows(RowStore):
    """Label schemas in a database."""

    table = "label_schemas"
    key = ("schema_id",)
    columns = ("experiment_id", *_SCHEMA.values(), "input_config")

    def normalised(self, entity: Entity, row: Row) -> Entity:
        entity.values["input_config"] = json.loads(row["input_config"])
        return entity

    def own_row(self, entity: Entity) -> Row:
        config = json.dumps(entity.values["input_config"])
        return {**super().own_row(entity), "input_config": config}


class ReviewQueueRows(RowStore):
    """Review queues in a database, with their users, questions and items."""

    table = "review_queues"
    key = ("queue_id",)
    columns = ("experiment_id", *_QUEUE.values())
    page_size = 10
    children: ClassVar = {
        "users": ChildTable("review_queue_users", ("queue_id",), ("user_id",), ()),
        "schemas": ChildTable("review_queue_label_schemas", ("queue_id",), ("schema_id",), ()),
        "items": ChildTable(
            "review_queue_items", ("queue_id",), ("item_type", "item_id"), tuple(_ITEM.values())
        ),
    }

    def own_row(self, entity: Entity) -> Row:
        return {**super().own_row(entity), "name_key": str(entity.values["name"]).lower()}


class ReviewedItems(ListedItemStore):
    """Entities of an experiment whose names are guarded there."""

    by_age: ClassVar[Range]

    @abstractmethod
    def key_of(self, entity: Entity) -> Key:
        """The key of an entity's own item."""

    @abstractmethod
    def guard_of(self, entity: Entity) -> Key:
        """The key of the guard of an entity's name."""

    def _own_items(self) -> Iterator[Item]:
        for experiment_id in self.transfer_table.experiment_ids():
            query = Query(experiment_pk(experiment_id), self.by_age.on("lsi1sk"), "LSI1")
            yield from self.table.items(query)

    def _keys(self, entities: Sequence[Entity]) -> Iterable[Key]:
        return map(self.key_of, entities)

    def refusals(self, entities: Sequence[Entity]) -> dict[EntityKey, str]:
        guards = {entity.key: self.guard_of(entity) for entity in entities}
        taken = self.table.get_many(guards.values())
        return {
            key: "another of its experiment has its name"
            for key, guard in guards.items()
            if guard in taken and taken[guard]["id"] != key[0]
        }

    def _beside(self, entities: Sequence[Entity]) -> Iterator[Item]:
        """The guards of names, and the locators of ids that do not name their experiment."""
        for entity in entities:
            guard, own = self.guard_of(entity), str(entity.key[0])
            yield {"PK": guard.pk, "SK": guard.sk, "id": own}
            if not any(ids.experiment_of(own.removeprefix(prefix)) for prefix in ID_PREFIXES):
                yield locator(own, str(entity.experiment_id))


class LabelSchemaItems(ReviewedItems):
    """Label schemas in a table."""

    by_age = review_keys.label_schemas_by_age()

    def key_of(self, entity: Entity) -> Key:
        return review_keys.label_schema_key(str(entity.experiment_id), entity.key[0])

    def guard_of(self, entity: Entity) -> Key:
        sk = review_keys.label_schema_name(str(entity.values["name"]))
        return Key(experiment_pk(str(entity.experiment_id)), sk)

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        self.transfer_table.put(self._beside(entities))
        self.transfer_table.put(map(_schema_item, entities))

    def _entities(self, items: Sequence[Item]) -> list[Entity]:
        return [_schema(item) for item in items]


def _schema_item(entity: Entity) -> Item:
    (schema_id,), values = entity.key, entity.values
    key = review_keys.label_schema_key(str(entity.experiment_id), schema_id)
    return {
        "PK": key.pk,
        "SK": key.sk,
        **{ours: values[theirs] for ours, theirs in _SCHEMA.items()},
        "input": json.dumps(values["input_config"]),
        "lsi1sk": review_keys.lsi1_label_schema(schema_id, values["created_time"]),
    }


def _schema(item: Item) -> Entity:
    values: dict[str, Any] = {
        "experiment_id": experiment_id_of(item),
        **{theirs: item[ours] for ours, theirs in _SCHEMA.items()},
        "input_config": json.loads(item["input"]),
    }
    return Entity((label_schema_id_of(item),), values)


class ReviewQueueItems(ReviewedItems):
    """Review queues in a table. What is to be reviewed expires with its trace."""

    at_once = 10
    by_age = review_keys.review_queues_by_age()

    def key_of(self, entity: Entity) -> Key:
        return review_keys.review_queue_key(str(entity.experiment_id), entity.key[0])

    def guard_of(self, entity: Entity) -> Key:
        sk = review_keys.review_queue_name(str(entity.values["name"]))
        return Key(experiment_pk(str(entity.experiment_id)), sk)

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        self.transfer_table.put(self._beside(entities))
        for entity in entities:
            self.transfer_table.put(self._review_items(entity))
        # The queues last: one that exists is complete.
        self.transfer_table.put(map(_queue_item, entities))

    def _review_items(self, entity: Entity) -> Iterator[Item]:
        (queue_id,), experiment_id = entity.key, str(entity.experiment_id)
        traces = {item_id: trace_locator_key(item_id) for _, item_id in entity.values["items"]}
        found = self.table.get_many(traces.values())
        for (item_type, item_id), row in entity.values["items"].items():
            key = review_keys.review_item_key(experiment_id, queue_id, item_id)
            fields = {ours: row[theirs] for ours, theirs in _ITEM.items()}
            expiry = found.get(traces[item_id], {}).get(TTL)
            yield {
                "PK": key.pk,
                "SK": key.sk,
                "item_type": item_type,
                **{name: value for name, value in fields.items() if value is not None},
                "lsi1sk": review_keys.lsi1_review_item(
                    queue_id, row["status"], item_id, row["creation_time_ms"]
                ),
                "lsi4sk": review_keys.lsi4_review_item(item_id, queue_id),
                **({} if expiry is None else {TTL: expiry}),
            }

    def _entities(self, items: Sequence[Item]) -> list[Entity]:
        below = self.table.map(self._read_review_items, items)
        return [_queue(item, some) for item, some in zip(items, below, strict=True)]

    def _read_review_items(self, queue: Item) -> dict[tuple[str, str], Item]:
        where = review_keys.review_items(queue_id_of(queue)).on()
        return {
            (str(item["item_type"]), item_id_of(item)): {
                theirs: item.get(ours) for ours, theirs in _ITEM.items()
            }
            for item in self.table.items(Query(str(queue["PK"]), where=where))
        }


def _queue_item(entity: Entity) -> Item:
    (queue_id,), values = entity.key, entity.values
    key = review_keys.review_queue_key(str(entity.experiment_id), queue_id)
    return {
        "PK": key.pk,
        "SK": key.sk,
        **{ours: values[theirs] for ours, theirs in _QUEUE.items()},
        "users": sorted(values["users"]),
        "schema_ids": sorted(values["schemas"]),
        ATTACHED: 0,
        "lsi1sk": review_keys.lsi1_review_queue(queue_id, values["creation_time_ms"]),
    }


def _queue(item: Item, below: dict[tuple[str, str], Item]) -> Entity:
    values: dict[str, Any] = {
        "experiment_id": experiment_id_of(item),
        **{theirs: item[ours] for ours, theirs in _QUEUE.items()},
        "users": {user: {} for user in item["users"]},
        "schemas": {schema_id: {} for schema_id in item["schema_ids"]},
        "items": below,
    }
    return Entity((queue_id_of(item),), values)
