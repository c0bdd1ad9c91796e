"""Experiments, in a database and in a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from boto3.dynamodb.conditions import Attr
from mlflow.entities import Experiment
from mlflow.entities.lifecycle_stage import LifecycleStage

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.shared.experiment_items import (
    LONG_TAGS,
    NewExperiment,
    Tags,
    all_tags,
    entry_key,
    inline_tags,
    tag_change,
    tag_item,
)
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.shared.search.name_index import EXPERIMENT_NAME, NameIndex
from mlflow_dynamodbstore.shared.volume_states import RESERVE, VOLUMES, WIDTH
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query, TransactWrite
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import TTL, Item, Key
from mlflow_dynamodbstore.transfer.sql.database import Transaction
from mlflow_dynamodbstore.transfer.sql.entities import (
    OTHER_NAME,
    Entity,
    EntityKey,
    EntitySource,
)
from mlflow_dynamodbstore.transfer.sql.items import ItemStore, TransferTable
from mlflow_dynamodbstore.transfer.sql.rows import ChildTable, RowStore

DEFAULT_ID = "0"
NUMBERED_UP_TO = 1 << 40
"""Ids of experiments from here on do not move the counter."""
_COLUMNS = (
    "name",
    "workspace",
    "artifact_location",
    "lifecycle_stage",
    "creation_time",
    "last_update_time",
)


class ExperimentRows(RowStore):
    """Experiments in a database."""

    table = "experiments"
    key = ("experiment_id",)
    columns = _COLUMNS
    children: ClassVar = {
        "tags": ChildTable("experiment_tags", ("experiment_id",), ("key",), ("value",))
    }

    def insert(self, transaction: Transaction, entities: Sequence[Entity]) -> None:
        super().insert(transaction, entities)
        transaction.advance_sequence("experiments", "experiment_id")

    def merge(self, entity: Entity, existing: Entity) -> bool:
        """Replace the default experiment that MLflow creates, if it is unused."""
        if entity.key != (DEFAULT_ID,) or not is_new(existing) or self._is_used():
            return False
        with self.database.transaction() as transaction:
            transaction.delete("experiments", {"experiment_id": int(DEFAULT_ID)})
            self.insert(transaction, [entity])
        return True

    def _is_used(self) -> bool:
        zero = {"experiment_id": int(DEFAULT_ID)}
        return any(
            self.database.count(table, zero) for table in ("runs", "trace_info", "logged_models")
        )


class ExperimentItems(ItemStore):
    """Experiments in a table."""

    def __init__(self, transfer_table: TransferTable):
        super().__init__(transfer_table)
        self._names = NameIndex(transfer_table.table, transfer_table.policies, EXPERIMENT_NAME)

    def count(self) -> int:
        return sum(1 for _ in self.transfer_table.experiment_ids())

    def pages(self) -> Iterator[list[Entity]]:
        for metas in self.transfer_table.experiments():
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
        guards = {_name_guard(entity): entity for entity in entities}
        taken = self.table.get_many(guards)
        return {
            guards[key].key: f"experiment {entry['experiment_id']} already has its name, "
            f"{guards[key].values['name']!r}. {OTHER_NAME}"
            for key, entry in taken.items()
            if entry["experiment_id"] != guards[key].key[0]
        }

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        self._raise_counter(entities)
        for workspace in sorted({e.values["workspace"] for e in entities}):
            self.transfer_table.workspaces.note(workspace)
        for entity in entities:
            self._write_one(entity)

    def _raise_counter(self, entities: Sequence[Entity]) -> None:
        """Give the next new experiment a number after all that are moved."""
        numbers = [int(entity.key[0]) for entity in entities]
        greatest = max((number for number in numbers if number < NUMBERED_UP_TO), default=0)
        self.transfer_table.raise_counter("experiment", greatest)

    def _write_one(self, entity: Entity, replaced: Item | None = None) -> None:
        (experiment_id,), values = entity.key, entity.values
        wanted = self.transfer_table.policies.denormalises
        new = NewExperiment(
            experiment_id,
            values["name"],
            values["workspace"],
            values["artifact_location"],
            values["creation_time"],
            values["tags"],
            wanted,
            self.table.engine.capabilities.spread,
        )
        state: Item = {
            "lifecycle": values["lifecycle_stage"],
            "last_update_time": values["last_update_time"],
        }
        expiry = self.transfer_table.deletion_expiry()
        if values["lifecycle_stage"] == LifecycleStage.DELETED and expiry is not None:
            state[TTL] = expiry
        self._names.enter(new.workspace, experiment_id, new.name)
        # The tags first: nobody sees them until the experiment itself exists.
        self.transfer_table.put(new.tag_items())
        entry = new.entry(int(self.table.clock() * 1000))
        meta = {**new.meta(), **state}
        if replaced is not None:
            meta.update((n, replaced[n]) for n in (VOLUMES, WIDTH, RESERVE) if n in replaced)
        self.table.transact(
            [
                *self._writes(replaced, meta, {**entry, **state}),
                Put(new.name_rev()),
            ]
        )
        self._names.enter(new.workspace, experiment_id, new.name)

    def _writes(self, replaced: Item | None, meta: Item, entry: Item) -> list[TransactWrite]:
        """The writes of an experiment, which may replace an unused one of the same number."""
        if replaced is None:
            return [Put(meta, condition=ABSENT), Put(entry, condition=ABSENT)]
        same = Attr("last_update_time").eq(replaced["last_update_time"])
        writes: list[TransactWrite] = [Put(meta, condition=same), Put(entry)]
        if entry_key(replaced) != entry_key(meta):
            writes.append(Delete(entry_key(replaced)))
        return writes

    def differences(self, entity: Entity, existing: Entity) -> Iterator[str]:
        names = entity.values["name"], existing.values["name"]
        if names[0] != names[1]:  # another experiment: whatever else differs, differs of course
            return iter([f"name: {names[0]!r}, not {names[1]!r}"])
        return super().differences(entity, existing)

    def advice(self, entity: Entity, existing: Entity) -> str:
        if entity.values["name"] != existing.values["name"]:
            return "Import with --renumber, which gives experiments new ids."
        if entity.values["creation_time"] != existing.values["creation_time"]:
            return OTHER_NAME
        return "One of the two was changed after an import; make both the same, or keep this one."

    # --- the default experiment, which both may have used ---------------------------------------

    def accepts(self, entity: Entity, existing: Entity) -> bool:
        if entity.key != (DEFAULT_ID,) or entity.values == existing.values:
            return entity.values == existing.values
        return bool(entity.values["tags"].items() <= existing.values["tags"].items())

    def merge(self, entity: Entity, existing: Entity) -> bool:
        """Replace the default experiment if it is unused; otherwise add the tags to it."""
        if entity.key != (DEFAULT_ID,):
            return False
        replaced = self.table.get(experiment_keys.experiment_key(DEFAULT_ID))
        if replaced is not None and is_new(existing) and not self._is_used():
            self._write_one(entity, replaced)
            return True
        ours, theirs = existing.values["tags"], entity.values["tags"]
        if any(ours.get(name, value) != value for name, value in theirs.items()):
            return False
        for name, value in theirs.items():
            self._add_tag(name, value)
        return True

    def _add_tag(self, name: str, value: str | None) -> None:
        key = experiment_keys.experiment_key(DEFAULT_ID)
        meta = self.table.get(key) or {}
        change = tag_change(meta, name, value, self.transfer_table.policies.denormalises)
        tag = tag_item(key.pk, name, value)
        self.table.transact([Patch(key, change, condition=PRESENT), Put(tag)])

    def _is_used(self) -> bool:
        own = {experiment_keys.EXPERIMENT_META, experiment_keys.experiment_name_rev()}
        queries = [
            Query(pk, keys_only=True, limit=len(own) + 1)
            for pk in self.transfer_table.volumes.partitions(DEFAULT_ID)
        ]
        return any(
            item["SK"] not in own for query in queries for item in self.table.query(query).items
        )


def is_new(default: Entity) -> bool:
    """Whether the default experiment is as MLflow creates it."""
    values: dict[str, Any] = default.values
    return (
        values["name"] == Experiment.DEFAULT_EXPERIMENT_NAME
        and values["lifecycle_stage"] == LifecycleStage.ACTIVE
        and values["creation_time"] == values["last_update_time"]
        and not values["tags"]
    )


class ExperimentsHere:
    """The experiments of a table that an import may meet: by their names, and by some ids."""

    def __init__(self, table: Table, entities: Iterable[Entity], ids: Iterable[str] = ()):
        guards = {_name_guard(entity): entity.key for entity in entities}
        self._named = {
            guards[guard]: str(entry["experiment_id"])
            for guard, entry in table.get_many(guards).items()
        }
        keys = {experiment_keys.experiment_key(one): one for one in {*ids, *self._named.values()}}
        self._metas = {keys[key]: meta for key, meta in table.get_many(keys).items()}

    def named_like(self, entity: Entity) -> str | None:
        """The id of the experiment that has an entity's name."""
        return self._named.get(entity.key)

    def get(self, experiment_id: str) -> Item | None:
        """The own item of one of these experiments."""
        return self._metas.get(experiment_id)

    def is_another(self, experiment_id: str, entity: Entity) -> bool:
        """Whether an id belongs to another experiment: one that was not created at that moment."""
        meta = self._metas.get(experiment_id)
        return meta is not None and meta["creation_time"] != entity.values["creation_time"]


def _name_guard(entity: Entity) -> Key:
    return access_keys.experiment_name_guard(entity.values["name"], entity.values["workspace"])
