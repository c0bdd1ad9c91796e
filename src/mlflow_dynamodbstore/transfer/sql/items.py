"""What the entity stores of a table share."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import count

from boto3.dynamodb.conditions import Attr
from mlflow.entities.lifecycle_stage import LifecycleStage

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.shared.policies import SOFT_DELETED_RETENTION, Policies
from mlflow_dynamodbstore.shared.volume_states import Volume
from mlflow_dynamodbstore.shared.volumes import MOST_FULL_VOLUMES, Volumes
from mlflow_dynamodbstore.shared.workspaces import WorkspacesInUse, all_experiments
from mlflow_dynamodbstore.table.contract import MAX_ITEM_BYTES, Put, Query, is_full
from mlflow_dynamodbstore.table.errors import ConditionFailed, TableError
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.sizes import size_with_copies
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.undo import UndoneIfFull
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntityKey, EntityStore

AT_ONCE = 100
"""How many entities are read together; as many as one request can read."""
WRITTEN_AT_ONCE = 2_000
"""How many items are held before they are written."""


class TransferTable:
    """The table that entities are moved to or from, with what all its entity stores need."""

    def __init__(self, table: Table):
        self.table = table
        self.policies = Policies(table)
        self.workspaces = WorkspacesInUse(table)
        self.volumes = Volumes(table)
        self._known: dict[str, Item] = {}

    def experiments(self) -> Iterator[list[Item]]:
        """The own items of all experiments, deleted ones included, a few at a time."""
        for some in batched(all_experiments(self.table), AT_ONCE):
            wanted = [experiment_keys.experiment_key(experiment_id) for experiment_id in some]
            found = self.table.get_many(wanted)
            yield [found[key] for key in wanted if key in found]

    def experiment_ids(self) -> Iterator[str]:
        """The ids of all experiments."""
        for some in self.experiments():
            yield from (str(experiment_keys.experiment_id_of(str(meta["PK"]))) for meta in some)

    def experiment_states(self, experiment_ids: Iterable[str]) -> dict[str, Item]:
        """The lifecycle stage and workspace of some experiments; each is read once."""
        asked = set(experiment_ids)
        unknown = {experiment_keys.experiment_key(one): one for one in asked - self._known.keys()}
        for key, meta in self.table.get_many(unknown).items():
            state = {"lifecycle": meta["lifecycle"], "workspace": meta["workspace"]}
            self._known[unknown[key]] = state
        return {one: self._known[one] for one in asked if one in self._known}

    def deleted_experiments(self, experiment_ids: Iterable[str]) -> set[str]:
        """Those of some experiments that are deleted."""
        states = self.experiment_states(experiment_ids).items()
        return {one for one, state in states if state["lifecycle"] == LifecycleStage.DELETED}

    def deletion_expiry(self) -> int | None:
        """When an entity that is deleted now expires."""
        return self.policies.expiry(SOFT_DELETED_RETENTION)

    def place(self, entities: Sequence[Entity], write: Callable[[Sequence[Entity]], None]) -> None:
        """Write runs, traces or logged models to open volumes, and to others if one is full."""
        for tries in count(1):
            self._choose_volumes(entities)
            chosen = {(str(entity.experiment_id), volume_of(entity)) for entity in entities}
            try:
                with UndoneIfFull():
                    write(entities)
            except TableError as error:
                if not is_full(error) or tries == MOST_FULL_VOLUMES:
                    raise
                full = [one for one in chosen if self.volumes.may_be_full(*one)]
                for one in full:
                    self.volumes.close(*one)
                if full:
                    continue
                if len(entities) == 1:
                    raise
                half = len(entities) // 2  # all of them do not fit into one volume
                self.place(entities[:half], write)
                self.place(entities[half:], write)
            else:
                for one in chosen:
                    self.volumes.note_new(*one)
            return

    def _choose_volumes(self, entities: Iterable[Entity]) -> None:
        """Note with entities in which volume they are to be written.

        That is the one that an id of ours names, if it is open; otherwise any that is.
        """
        for entity in entities:
            home = Volume(str(entity.experiment_id))
            known = self.volumes.of([home.experiment_id])
            named = [Volume(*one) for one in ids.homes_of(entity.key[0])]
            is_open = (one for one in named if one in known and self.volumes.takes_more(*one))
            chosen = self.volumes.choose(home.experiment_id, str(entity.key[0]))
            entity.hints[VOLUME] = next((one.number for one in is_open), chosen)

    def raise_counter(self, sequence: str, greatest: int) -> None:
        """Make a counter go on after a number, unless it is beyond that already."""
        value = Attr("value")
        with suppress(ConditionFailed):
            self.table.update(
                access_keys.sequence_key(sequence),
                Update(set={"value": greatest}),
                condition=value.not_exists() | value.lt(greatest),
            )

    @cached_property
    def has_renumbered(self) -> bool:
        """Whether an import gave experiments new ids, so that one source can be met twice."""
        some = Query(access_keys.CONFIG_PK, where=access_keys.ALL_NEW_NUMBERS.on(), limit=1)
        return next(self.table.items(some), None) is not None

    def put(self, items: Iterable[Item]) -> None:
        """Write items in no particular order."""
        for some in batched(items, WRITTEN_AT_ONCE):
            self.table.write([Put(item) for item in some])


VOLUME = "volume"
"""Hint of an entity in an experiment: the volume in which it lies, or is to be written."""


def volume_of(entity: Entity) -> int:
    """The volume that is noted with an entity."""
    volume: int = entity.hints.get(VOLUME, 0)
    return volume


class ItemStore(EntityStore):
    """The entities of one kind in a table."""

    def __init__(self, transfer_table: TransferTable):
        self.transfer_table = transfer_table
        self.table = transfer_table.table
        self.not_moved = Counter()


class ListedItemStore(ItemStore):
    """Entities that each have an own item, which can be listed."""

    at_once = AT_ONCE

    def count(self) -> int:
        return sum(1 for _ in self._own_items())

    def pages(self) -> Iterator[list[Entity]]:
        for items in batched(self._own_items(), self.at_once):
            yield self._entities(items)

    def read(self, like: Sequence[Entity]) -> dict[EntityKey, Entity]:
        found = self.table.get_many(self._keys(like))
        return {entity.key: entity for entity in self._entities(list(found.values()))}

    @abstractmethod
    def _own_items(self) -> Iterator[Item]:
        """The own items of all entities."""

    @abstractmethod
    def _keys(self, entities: Sequence[Entity]) -> Iterable[Key]:
        """The keys of the own items of entities."""

    @abstractmethod
    def _entities(self, items: Sequence[Item]) -> list[Entity]:
        """The entities that own items stand for."""


class StagedItemStore(ListedItemStore):
    """Entities in experiments that LSI1 lists by lifecycle stage."""

    def count(self) -> int:
        return sum(1 for _ in self._own_items(keys_only=True))

    def _own_items(self, *, keys_only: bool = False) -> Iterator[Item]:
        for volume in self.transfer_table.volumes.of(self.transfer_table.experiment_ids()):
            for stage in (LifecycleStage.ACTIVE, LifecycleStage.DELETED):
                where = self._in_stage(stage).on("lsi1sk")
                yield from self.table.items(Query(volume.pk, where, "LSI1", keys_only=keys_only))

    def _keys(self, entities: Sequence[Entity]) -> Iterator[Key]:
        """The keys of the own items of entities in each volume of their experiments."""
        for entity in entities:
            sk = self._sort_key(str(entity.key[0]))
            for pk in self.transfer_table.volumes.partitions(str(entity.experiment_id)):
                yield Key(pk, sk)

    def refusals(self, entities: Sequence[Entity]) -> dict[EntityKey, str]:
        return {**super().refusals(entities), **self._elsewhere(entities)}

    def _elsewhere(self, entities: Sequence[Entity]) -> dict[EntityKey, str]:
        """Refuses entities that lie in another experiment: an id must not exist twice."""
        if not self.transfer_table.has_renumbered:
            return {}
        found = self.table.map(self._experiment_with, entities)
        return {
            entity.key: in_another(where)
            for entity, where in zip(entities, found, strict=True)
            if where is not None and where != entity.experiment_id
        }

    def _experiment_with(self, entity: Entity) -> str | None:
        """The experiment that GSI1 names for an id."""
        locator = self._locator(str(entity.key[0]))
        page = self.table.query(Query(locator, index="GSI1", limit=1))
        return experiment_id_of(page.items[0]) if page.items else None

    @abstractmethod
    def _locator(self, own_id: str) -> str:
        """The partition of GSI1 that names the experiment of an id."""

    @abstractmethod
    def _sort_key(self, own_id: str) -> str:
        """The sort key of an entity's own item."""

    @abstractmethod
    def _in_stage(self, stage: str) -> Range:
        """The range of LSI1 with the entities of a lifecycle stage."""


def in_another(experiment_id: str) -> str:
    """Why an entity cannot be written whose id something in another experiment has."""
    return f"it is in experiment {experiment_id} already, from another import"


def too_large(items: Sequence[Item]) -> str | None:
    """Why items are too large to be written; None when they are not."""
    size = max((size_with_copies(MLFLOW_TABLE, item) for item in items), default=0)
    if size <= MAX_ITEM_BYTES:
        return None
    return (
        f"it needs an item of {size:,} bytes with its copies in indexes, and {MAX_ITEM_BYTES:,} is "
        "the most"
    )
