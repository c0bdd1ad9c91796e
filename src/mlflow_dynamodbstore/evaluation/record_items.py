"""Records of evaluation datasets: their items, and how those with the same inputs are merged."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mlflow.entities.dataset_record import DatasetRecord
from mlflow.entities.dataset_record_source import DatasetRecordSource
from mlflow.utils.mlflow_tags import MLFLOW_USER

from mlflow_dynamodbstore.evaluation.attributes import CONTENTS, REVISION
from mlflow_dynamodbstore.keys import evaluation_datasets as dataset_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.plain_values import shown
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.table.values import Item, Key

ID_PREFIX = "dr-"
INLINE = 64 * 1024
"""Bytes that may stay in a record's own item, so that 49 records fit into a transaction."""

Given = Mapping[str, Any]
"""A record as a caller gives it."""


def input_hash(given: Given) -> str:
    """The hash of a record's inputs."""
    values = given.get("inputs", {})
    if values is not None and not isinstance(values, dict):
        raise invalid(f"Invalid value {shown(values)} for the inputs of a record: use a dict.")
    inputs = json.dumps(values, sort_keys=True)
    return hashlib.sha256(inputs.encode()).hexdigest()


def user_of(given: Given) -> str | None:
    """The user that the tags of a record name, if any."""
    user: str | None = (given.get("tags") or {}).get(MLFLOW_USER)
    return user


@dataclass(frozen=True)
class Record:
    """A record of a dataset."""

    dataset_id: str
    record_id: str
    input_hash: str
    created: int
    updated: int
    created_by: str | None
    updated_by: str | None
    contents: dict[str, Any]
    revision: int = 1
    stored: Item = field(default_factory=dict)  # its item in the table, empty for a new record

    @classmethod
    def new(cls, dataset_id: str, given: Given, now: int) -> Record:
        """A record that is not in the dataset yet."""
        source = given.get("source") or None
        if isinstance(source, Mapping):
            source = DatasetRecordSource.from_dict(dict(source))
        contents = {
            "inputs": given.get("inputs", {}),
            "outputs": given.get("outputs", {}),
            "expectations": given.get("expectations"),
            "tags": given.get("tags"),
            "source": None if source is None else source.to_dict(),
        }
        record_id = ID_PREFIX + ids.new_id(now_ms=now)
        user = user_of(given)
        return cls(
            dataset_id, record_id, input_hash(given), now, now, user, user, _as_json(contents)
        )

    @classmethod
    def of(cls, dataset_id: str, item: Item, contents: Any) -> Record:
        """A record as the table holds it."""
        record_id = dataset_keys.dataset_record_of(str(item["SK"]))
        assert record_id is not None  # ids are short
        return cls(
            dataset_id,
            record_id,
            str(item["hash"]),
            item["created"],
            item["updated"],
            item.get("created_by"),
            item.get("updated_by"),
            json.loads(contents),
            item[REVISION],
            item,
        )

    def _merged(self, given: Given, now: int) -> Record:
        """This record updated by one with the same inputs."""
        contents = dict(self.contents)
        if "outputs" in given:
            contents["outputs"] = given["outputs"]
        for part in ("expectations", "tags"):
            if more := given.get(part):
                contents[part] = {**(contents[part] or {}), **more}
        return replace(
            self,
            contents=_as_json(contents),
            updated=now,
            updated_by=user_of(given) or self.updated_by,
        )

    def merged_with(self, others: Sequence[Given], now: int) -> Record:
        """This record updated by several with the same inputs, one after the other."""
        record = self
        for given in others:
            record = record._merged(given, now)
        return record

    @property
    def key(self) -> Key:
        return Key(
            dataset_keys.dataset_pk(self.dataset_id),
            dataset_keys.dataset_record(self.record_id),
        )

    @property
    def guard(self) -> Item:
        """The item that keeps the inputs unique in the dataset."""
        key = self.guard_key
        return {"PK": key.pk, "SK": key.sk, "record_id": self.record_id}

    @property
    def guard_key(self) -> Key:
        return Key(self.key.pk, dataset_keys.dataset_input(self.input_hash))

    def to_store(self) -> large_values.Stored:
        """The record's item, and the parts to write before it."""
        contents = large_values.store(self.key, CONTENTS, json.dumps(self.contents), inline=INLINE)
        item: Item = {
            "PK": self.key.pk,
            "SK": self.key.sk,
            "hash": self.input_hash,
            "created": self.created,
            "updated": self.updated,
            REVISION: self.stored.get(REVISION, 0) + 1,
            **contents.attributes,
        }
        people = {"created_by": self.created_by, "updated_by": self.updated_by}
        item |= {name: person for name, person in people.items() if person is not None}
        return large_values.Stored(item, contents.parts)

    def to_entity(self) -> DatasetRecord:
        """The record as MLflow shows it."""
        contents = dict(self.contents)
        source = contents.pop("source")
        return DatasetRecord(
            dataset_id=self.dataset_id,
            dataset_record_id=self.record_id,
            created_time=self.created,
            last_update_time=self.updated,
            created_by=self.created_by,
            last_updated_by=self.updated_by,
            source=DatasetRecordSource.from_dict(source) if source else None,
            **contents,
        )


def _as_json(contents: Mapping[str, Any]) -> dict[str, Any]:
    """Contents as they are read back from JSON, in which they are stored."""
    plain: dict[str, Any] = json.loads(json.dumps(contents))
    return plain
