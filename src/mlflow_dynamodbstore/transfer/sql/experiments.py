"""Experiments, in a database and in a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from boto3.dynamodb.conditions import Attr
from mlflow.entities import Experiment
from mlflow.entities.lifecycle_stage import LifecycleStage

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.experiment_items import (
    LONG_TAGS,
    NewExperiment,
    Tags,
    all_tags,
    entry_key,
    inline_tags,
    name_rev_item,
    tag_change,
    tag_item,
)
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.shared.search.name_index import EXPERIMENT_NAME, NameIndex
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query, TransactWrite
from mlflow_dynamodbstore.table.values import TTL, Item
from mlflow_dynamodbstore.transfer.sql.database import Writing
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntityKey, Side
from mlflow_dynamodbstore.transfer.sql.items import ItemSide, Shelf
from mlflow_dynamodbstore.transfer.sql.rows import Children, RowSide

DEFAULT_ID = "0"
NUMBERED_UP_TO = 1 << 40
"""Ids of experiments beyond this say nothing to the counter, which stays where it is."""
_COLUMNS = (
    "name",
    "workspace",
    "artifact_location",
    "lifecycle_stage",
    "creation_time",
    "last_update_time",
)


class ExperimentRows(RowSide):
    """Experiments in a database."""

    table = "experiments"
    key = ("experiment_id",)
    columns = _COLUMNS
    below: ClassVar = {
        "tags": Children("experiment_tags", ("experiment_id",), ("key",), ("value",)),
    }

    def insert(self, writing: Writing, entities: Sequence[Entity]) -> None:
        super().insert(writing, entities)
        writing.number_on("experiments", "experiment_id")

    def merge(self, entity: Entity, there: Entity) -> bool:
        """Put the default experiment in place of the one that MLflow makes, if that is unused."""
        if entity.key != (DEFAULT_ID,) or not is_new(there) or self._is_used():
            return False
        with self.database.writing() as writing:
            writing.delete("experiments", {"experiment_id": int(DEFAULT_ID)})
            self.insert(writing, [entity])
        return True

    def _is_used(self) -> bool:
        zero = {"experiment_id": int(DEFAULT_ID)}
        return any(
            self.database.count(table, zero) for table in ("runs", "trace_info", "logged_models")
        )


class ExperimentItems(ItemSide):
    """Experiments in a table."""

    def __init__(self, shelf: Shelf):
        super().__init__(shelf)
        self._names = NameIndex(shelf.table, shelf.policies, EXPERIMENT_NAME)

    def count(self) -> int:
        return sum(1 for _ in self.shelf.experiment_ids())

    def pages(self) -> Iterator[list[Entity]]:
        for metas in self.shelf.experiments():
            yield [self._entity(meta) for meta in metas]

    def read(self, like: Sequence[Entity]) -> dict[EntityKey, Entity]:
        found = self.table.get_many(
            experiment_keys.experiment_key(entity.key[0]) for entity in like
        )
        return {entity.key: entity for entity in map(self._entity, found.values())}

    def _entity(self, meta: Item) -> Entity:
        tags: Tags = all_tags(self.table, meta) if LONG_TAGS in meta else inline_tags(meta)
        values = {
            "name": meta["name"],
            "workspace": meta["workspace"],
            "artifact_location": meta["artifact_location"],
            "lifecycle_stage": meta["lifecycle"],
            "creation_time": meta["creation_time"],
            "last_update_time": meta["last_update_time"],
            "tags": dict(tags),
        }
        return Entity((experiment_id_of(meta),), values)

    # --- writing --------------------------------------------------------------------------------

    def refusals(self, entities: Sequence[Entity]) -> dict[EntityKey, str]:
        guards = {
            access_keys.experiment_name_guard(e.values["name"], e.values["workspace"]): e
            for e in entities
        }
        taken = self.table.get_many(guards)
        return {
            guards[key].key: f"experiment {entry['experiment_id']} has its name already, "
            f"{guards[key].values['name']!r}"
            for key, entry in taken.items()
            if entry["experiment_id"] != guards[key].key[0]
        }

    def write(self, entities: Sequence[Entity], source: Side) -> None:
        del source
        self._count_on(entities)
        workspaces = {e.values["workspace"] for e in entities} - {DEFAULT_WORKSPACE}
        entries = [access_keys.workspace_entry_key(workspace) for workspace in sorted(workspaces)]
        self.shelf.put({"PK": key.pk, "SK": key.sk} for key in entries)
        for entity in entities:
            self._write_one(entity)

    def _count_on(self, entities: Sequence[Entity]) -> None:
        """Let the next experiment have a number behind all that are moved."""
        numbers = [int(entity.key[0]) for entity in entities]
        greatest = max((number for number in numbers if number < NUMBERED_UP_TO), default=0)
        self.shelf.count_on("experiment", greatest)

    def _write_one(self, entity: Entity, standing: Item | None = None) -> None:
        (experiment_id,), values = entity.key, entity.values
        wanted = self.shelf.policies.denormalises
        new = NewExperiment(
            experiment_id,
            values["name"],
            values["workspace"],
            values["artifact_location"],
            values["creation_time"],
            values["tags"],
            wanted,
        )
        state: Item = {
            "lifecycle": values["lifecycle_stage"],
            "last_update_time": values["last_update_time"],
        }
        expiry = self.shelf.deletion_expiry()
        if values["lifecycle_stage"] == LifecycleStage.DELETED and expiry is not None:
            state[TTL] = expiry
        self._names.enter(new.workspace, experiment_id, new.name)
        # The tags first: until the experiment itself is there, nobody sees them.
        self.shelf.put(new.tag_items())
        self.table.transact(
            [
                *self._in_place_of(standing, {**new.meta(), **state}, {**new.entry(), **state}),
                Put(name_rev_item(experiment_id, new.name)),
            ]
        )
        self._names.enter(new.workspace, experiment_id, new.name)

    def _in_place_of(self, standing: Item | None, meta: Item, entry: Item) -> list[TransactWrite]:
        """The writes of an experiment; in place of another, of the same number, that is unused."""
        if standing is None:
            return [Put(meta, condition=ABSENT), Put(entry, condition=ABSENT)]
        same = Attr("last_update_time").eq(standing["last_update_time"])
        writes: list[TransactWrite] = [Put(meta, condition=same), Put(entry)]
        if entry_key(standing) != entry_key(meta):
            writes.append(Delete(entry_key(standing)))
        return writes

    # --- the default experiment, which both sides may have used ---------------------------------

    def accepts(self, entity: Entity, there: Entity) -> bool:
        if entity.key != (DEFAULT_ID,) or entity.values == there.values:
            return entity.values == there.values
        return bool(entity.values["tags"].items() <= there.values["tags"].items())

    def merge(self, entity: Entity, there: Entity) -> bool:
        """Put the default experiment in place of one that is unused, or add its tags to it."""
        if entity.key != (DEFAULT_ID,):
            return False
        standing = self.table.get(experiment_keys.experiment_key(DEFAULT_ID))
        if standing is not None and is_new(there) and not self._is_used():
            self._write_one(entity, standing)
            return True
        ours, theirs = there.values["tags"], entity.values["tags"]
        if any(ours.get(name, value) != value for name, value in theirs.items()):
            return False
        for name, value in theirs.items():
            self._add_tag(name, value)
        return True

    def _add_tag(self, name: str, value: str | None) -> None:
        key = experiment_keys.experiment_key(DEFAULT_ID)
        meta = self.table.get(key) or {}
        change = tag_change(meta, name, value, self.shelf.policies.denormalises)
        exists = Attr("PK").exists()
        tag = tag_item(key.pk, name, value)
        self.table.transact([Patch(key, change, condition=exists), Put(tag)])

    def _is_used(self) -> bool:
        own = {experiment_keys.EXPERIMENT_META, experiment_keys.experiment_name_rev()}
        query = Query(experiment_keys.experiment_pk(DEFAULT_ID), keys_only=True, limit=len(own) + 1)
        return any(item["SK"] not in own for item in self.table.query(query).items)


def is_new(default: Entity) -> bool:
    """Whether the default experiment is as MLflow makes it."""
    values: dict[str, Any] = default.values
    return (
        values["name"] == Experiment.DEFAULT_EXPERIMENT_NAME
        and values["lifecycle_stage"] == LifecycleStage.ACTIVE
        and values["creation_time"] == values["last_update_time"]
        and not values["tags"]
    )
