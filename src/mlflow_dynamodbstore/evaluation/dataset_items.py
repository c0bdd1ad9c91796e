"""The items of an evaluation dataset, except its records, built and read in one place.

META, the dataset's own item, stays small: a search reads it for every dataset, and every batch of
records changes it. The schema grows with the fields of the records and is an item of its own. Tags
are attributes of META, as those of an experiment are; long ones are items.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlflow.entities import EvaluationDataset

from mlflow_dynamodbstore.evaluation.attributes import CONTENTS
from mlflow_dynamodbstore.keys import evaluation as evaluation_keys
from mlflow_dynamodbstore.keys.encoding import is_cut
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.experiment_items import LONG_TAGS, Tags, inline, inline_tags
from mlflow_dynamodbstore.shared.places import NAME
from mlflow_dynamodbstore.shared.search.filters import TAG
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

RECORDS = "records"
"""Attribute of META: the number of records."""

_ATTRIBUTES = {
    "name": "name",
    "created_time": "created",
    "last_update_time": "updated",
    "created_by": "created_by",
    "last_updated_by": "updated_by",
}


def dataset_digest(name: str, updated: int) -> str:
    """A digest that changes whenever the dataset does."""
    return hashlib.sha256(f"{name}:{updated}".encode()).hexdigest()[:8]


def dataset_id_of(meta: Item) -> str:
    """The dataset that an item is or belongs to."""
    dataset_id = evaluation_keys.dataset_id_of(str(meta["PK"]))
    assert dataset_id is not None  # ids are short
    return dataset_id


# --- tags ---------------------------------------------------------------------------------------


def inline_attributes(tags: Tags) -> Item:
    """The attributes of META that hold tags, and the mark that there are longer ones."""
    return inline(tags, lambda _: True)


def tags_change(meta: Item, tags: Tags) -> tuple[Update, list[Item]]:
    """The update of META that sets tags, and the items of the long ones."""
    after = inline_attributes({**inline_tags(meta), **tags})
    changes = {name: value for name, value in after.items() if meta.get(name, meta) != value}
    kept = inline_tags(after)
    moved = tuple(name for name in inline_names(meta) if name not in after)
    long = {key: value for key, value in tags.items() if key not in kept}
    return Update(set=changes, remove=moved), long_tags(str(meta["PK"]), long)


def inline_names(meta: Item) -> list[str]:
    """The attributes of META that are tags."""
    return [name for name in inline_attributes(inline_tags(meta)) if name != LONG_TAGS]


def long_tags(pk: str, tags: Tags) -> list[Item]:
    """Tags as items of their own."""
    items: list[Item] = []
    for key, value in tags.items():
        sk = evaluation_keys.dataset_tag(key)
        items.append({"PK": pk, "SK": sk, "value": value, **({NAME: key} if is_cut(sk) else {})})
    return items


def all_tags(table: Table, meta: Item) -> Tags:
    """The tags of a dataset."""
    if LONG_TAGS not in meta:
        return inline_tags(meta)
    query = Query(str(meta["PK"]), where=evaluation_keys.DATASET_TAGS.on())
    return {**{_tag_name(item): item["value"] for item in table.items(query)}, **inline_tags(meta)}


def _tag_name(item: Item) -> str:
    key = evaluation_keys.dataset_tag_key(str(item["SK"]))
    return str(item[NAME]) if key is None else key


# --- links to experiments -----------------------------------------------------------------------


def link_items(dataset_id: str, experiment_ids: Iterable[str], now: int) -> list[Item]:
    """The items that link a dataset to experiments: two for each, one on either side."""
    items: list[Item] = []
    for experiment_id in dict.fromkeys(map(str, experiment_ids)):
        link = evaluation_keys.dataset_link_key(dataset_id, experiment_id)
        use = evaluation_keys.dataset_experiment(experiment_id)
        items.append({"PK": evaluation_keys.dataset_pk(dataset_id), "SK": use, "created": now})
        items.append({"PK": link.pk, "SK": link.sk})
    return items


# --- datasets as searched and shown -------------------------------------------------------------


@dataclass(frozen=True)
class TaggedDataset:
    """A dataset with its tags, as filters and sort keys see it."""

    meta: Item
    tags: Tags

    @property
    def dataset_id(self) -> str:
        return dataset_id_of(self.meta)

    def values(self, kind: str, name: str) -> Sequence[Any]:
        """What a search finds under a name: see ``search.filters.Searchable``."""
        if kind == TAG:
            value = self.tags.get(name)
        elif name == "dataset_id":
            value = self.dataset_id
        else:
            value = self.meta[_ATTRIBUTES[name]]
        return () if value is None else (value,)


def dataset_entity(dataset: TaggedDataset, schema: str | None) -> EvaluationDataset:
    """The dataset as MLflow shows it."""
    meta = dataset.meta
    count = meta[RECORDS]
    return EvaluationDataset(
        dataset_id=dataset.dataset_id,
        name=meta["name"],
        digest=meta["digest"],
        created_time=meta["created"],
        last_update_time=meta["updated"],
        tags=dict(dataset.tags),
        schema=schema,
        profile=json.dumps({"num_records": count}) if count else None,
        created_by=meta["created_by"],
        last_updated_by=meta["updated_by"],
    )


# --- schemas ------------------------------------------------------------------------------------

Schema = dict[str, Any]

_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "boolean"),  # before int, because a bool is an int
    (int, "integer"),
    (float, "float"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)


def schema_text(table: Table, item: Item | None) -> str | None:
    """The schema of a dataset as MLflow stores it, or None before there are records."""
    return None if item is None else str(large_values.load(table, item, CONTENTS))


def schema_key(meta: Item) -> Key:
    """The key of a dataset's schema."""
    return Key(str(meta["PK"]), evaluation_keys.DATASET_SCHEMA)


def grown_schema(text: str | None, records: Iterable[Mapping[str, Any]]) -> str:
    """A schema extended by the fields of more records; types that it has already stay."""
    schema: Schema = (
        json.loads(text)
        if text
        else {"inputs": {}, "outputs": {}, "expectations": {}, "version": "1.0"}
    )
    for record in records:
        _add_fields(schema, "inputs", record.get("inputs") or {})
        _add_fields(schema, "expectations", record.get("expectations") or {})
        outputs = record.get("outputs")
        if isinstance(outputs, dict):
            _add_fields(schema, "outputs", outputs)
        elif outputs is not None and not schema["outputs"]:
            schema["outputs"] = field_type(outputs)
    return json.dumps(schema)


def _add_fields(schema: Schema, part: str, fields: Mapping[str, Any]) -> None:
    known = schema[part]
    if isinstance(known, str):
        return  # the first outputs were one value without fields
    for key, value in fields.items():
        known.setdefault(key, field_type(value))


def field_type(value: Any) -> str:
    """MLflow's name for the type of a value."""
    if value is None:
        return "null"
    return next((name for kind, name in _TYPES if isinstance(value, kind)), "unknown")
