"""Evaluation datasets and their records, in a database and in a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from mlflow.entities.dataset_record import DATASET_RECORD_WRAPPED_OUTPUT_KEY as WRAPPED
from mlflow.entities.entity_type import EntityAssociationType

from mlflow_dynamodbstore.evaluation.attributes import CONTENTS, REVISION
from mlflow_dynamodbstore.evaluation.dataset_items import (
    RECORDS,
    all_tags,
    dataset_id_of,
    inline_attributes,
    link_items,
    long_tags,
    schema_key,
    schema_text,
)
from mlflow_dynamodbstore.evaluation.record_items import Record
from mlflow_dynamodbstore.keys import evaluation_datasets as dataset_keys
from mlflow_dynamodbstore.keys.access import workspace_pk
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.experiment_items import inline_tags
from mlflow_dynamodbstore.shared.workspaces import all_workspaces
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key, Value
from mlflow_dynamodbstore.transfer.sql.column_values import stable_id
from mlflow_dynamodbstore.transfer.sql.database import Row
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntityKey, EntitySource
from mlflow_dynamodbstore.transfer.sql.items import AT_ONCE, ItemStore, ListedItemStore
from mlflow_dynamodbstore.transfer.sql.rows import ChildTable, NewRows, RowStore

_META = {
    "name": "name",
    "workspace": "workspace",
    "digest": "digest",
    "created": "created_time",
    "updated": "last_update_time",
    "created_by": "created_by",
    "updated_by": "last_updated_by",
}
_CONTENTS = ("inputs", "outputs", "expectations", "tags", "source")
_RECORD = {
    "input_hash": "input_hash",
    "created": "created_time",
    "updated": "last_update_time",
    "created_by": "created_by",
    "updated_by": "last_updated_by",
}


class Uses(ChildTable):
    """The experiments that use a dataset, and since when."""

    def rows(self, entity: Entity, value: Value, rows: NewRows) -> None:
        before = len(rows[self.table])
        super().rows(entity, value, rows)
        for row in rows[self.table][before:]:
            row["association_id"] = stable_id(row["source_id"], row["destination_id"])


class EvaluationDatasetRows(RowStore):
    """Evaluation datasets in a database, without their records."""

    table = "evaluation_datasets"
    key = ("dataset_id",)
    columns = (*_META.values(), "schema")
    children: ClassVar = {
        "tags": ChildTable("evaluation_dataset_tags", ("dataset_id",), ("key",), ("value",)),
        "experiments": Uses(
            "entity_associations",
            ("source_id",),
            ("destination_id",),
            ("created_time",),
            fixed={
                "source_type": EntityAssociationType.EVALUATION_DATASET,
                "destination_type": EntityAssociationType.EXPERIMENT,
            },
        ),
    }

    def normalised(self, entity: Entity, row: Row) -> Entity:
        profile = json.loads(row["profile"]) if row["profile"] else None
        entity.values["num_records"] = (profile or {}).get("num_records", 0)
        return entity

    def own_row(self, entity: Entity) -> Row:
        count = entity.values["num_records"]
        profile = json.dumps({"num_records": count}) if count else None
        return {**super().own_row(entity), "profile": profile}


class EvaluationRecordRows(RowStore):
    """Records of evaluation datasets in a database."""

    table = "evaluation_dataset_records"
    key = ("dataset_record_id",)
    columns = ("dataset_id", *_CONTENTS, *_RECORD.values())

    def normalised(self, entity: Entity, row: Row) -> Entity:
        entity.values["outputs"] = row["outputs"].get(WRAPPED) if row["outputs"] else None
        return entity

    def own_row(self, entity: Entity) -> Row:
        outputs = entity.values["outputs"]
        shown = _record(entity).to_entity()
        return {
            **super().own_row(entity),
            "outputs": None if outputs is None else {WRAPPED: outputs},
            "source_id": shown.source_id,
            "source_type": shown.source_type,
        }


# --- in a table ---------------------------------------------------------------------------------


def _dataset_ids(table: Table) -> Iterator[str]:
    for workspace in all_workspaces(table):
        query = Query(workspace_pk(workspace), where=dataset_keys.DATASETS.on())
        yield from (str(dataset_keys.dataset_entry_of(str(e["SK"]))) for e in table.items(query))


class EvaluationDatasetItems(ItemStore):
    """Evaluation datasets in a table, without their records."""

    def count(self) -> int:
        return sum(1 for _ in _dataset_ids(self.table))

    def pages(self) -> Iterator[list[Entity]]:
        for some in batched(_dataset_ids(self.table), AT_ONCE):
            yield self._entities(some)

    def read(self, like: Sequence[Entity]) -> dict[EntityKey, Entity]:
        return {entity.key: entity for entity in self._entities([e.key[0] for e in like])}

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        made = [_dataset_items(entity) for entity in entities]
        # The datasets last: one that exists is complete, without its records.
        self.transfer_table.put(item for _, below in made for item in below)
        self.transfer_table.put(meta for meta, _ in made)

    def _entities(self, dataset_ids: Sequence[str]) -> list[Entity]:
        found = self.table.get_many(dataset_keys.dataset_key(one) for one in dataset_ids)
        return self.table.map(self._entity, list(found.values()))

    def _entity(self, meta: Item) -> Entity:
        pk = str(meta["PK"])
        uses = self.table.items(Query(pk, where=dataset_keys.DATASET_EXPERIMENTS.on()))
        values: dict[str, Any] = {
            **{theirs: meta[ours] for ours, theirs in _META.items()},
            "schema": schema_text(self.table, self.table.get(schema_key(meta))),
            "num_records": meta[RECORDS],
            "tags": dict(all_tags(self.table, meta)),
            "experiments": {
                str(dataset_keys.dataset_experiment_of(str(use["SK"]))): use["created"]
                for use in uses
            },
        }
        return Entity((dataset_id_of(meta),), values)


def _dataset_items(entity: Entity) -> tuple[Item, list[Item]]:
    """A dataset's own item, and those that are written before it."""
    (dataset_id,), values = entity.key, entity.values
    key = dataset_keys.dataset_key(dataset_id)
    meta: Item = {
        "PK": key.pk,
        "SK": key.sk,
        **{ours: values[theirs] for ours, theirs in _META.items()},
        RECORDS: values["num_records"],
        **inline_attributes(values["tags"]),
    }
    inside = inline_tags(meta)
    below = long_tags(key.pk, {k: v for k, v in values["tags"].items() if k not in inside})
    for experiment_id, since in values["experiments"].items():
        below += link_items(dataset_id, [experiment_id], since)
    if values["schema"] is not None:
        at = schema_key(meta)
        stored = large_values.store(at, CONTENTS, values["schema"])
        below += [put.item for put in stored.parts]
        below.append({"PK": at.pk, "SK": at.sk, REVISION: 1, **stored.attributes})
    entry = dataset_keys.dataset_entry_key(dataset_id, values["workspace"])
    below.append({"PK": entry.pk, "SK": entry.sk, "name": values["name"]})
    return meta, below


class EvaluationRecordItems(ListedItemStore):
    """Records of evaluation datasets in a table."""

    def _keys(self, entities: Sequence[Entity]) -> Iterator[Key]:
        for entity in entities:
            pk = dataset_keys.dataset_pk(entity.values["dataset_id"])
            yield Key(pk, dataset_keys.dataset_record(entity.key[0]))

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        records = [_record(entity) for entity in entities]
        stored = [record.to_store() for record in records]
        parts = [put.item for one in stored for put in one.parts]
        self.transfer_table.put([*parts, *(record.guard for record in records)])
        self.transfer_table.put(one.attributes for one in stored)

    def _own_items(self) -> Iterator[Item]:
        for dataset_id in _dataset_ids(self.table):
            query = Query(
                dataset_keys.dataset_pk(dataset_id), where=dataset_keys.DATASET_RECORDS.on()
            )
            found = self.table.items(query)
            yield from (item for item in found if dataset_keys.is_dataset_record(str(item["SK"])))

    def _entities(self, heads: Sequence[Item]) -> list[Entity]:
        contents = large_values.load_many(self.table, heads, CONTENTS)
        return [
            _record_entity(Record.of(dataset_id_of(head), head, text))
            for head, text in zip(heads, contents, strict=True)
        ]


def _record(entity: Entity) -> Record:
    values = entity.values
    return Record(
        dataset_id=values["dataset_id"],
        record_id=entity.key[0],
        contents={name: values[name] for name in _CONTENTS},
        **{ours: values[theirs] for ours, theirs in _RECORD.items()},
    )


def _record_entity(record: Record) -> Entity:
    values = {
        "dataset_id": record.dataset_id,
        **record.contents,
        **{theirs: getattr(record, ours) for ours, theirs in _RECORD.items()},
    }
    return Entity((record.record_id,), values)
