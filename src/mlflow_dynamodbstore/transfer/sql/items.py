"""What the sides in the table share."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from boto3.dynamodb.conditions import Attr
from mlflow.entities.lifecycle_stage import LifecycleStage

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.policies import SOFT_DELETED_RETENTION, Policies
from mlflow_dynamodbstore.table.contract import MAX_ITEM_BYTES, Put, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.transfer.sql.entities import Entity, Side

AT_ONCE = 100
"""Entities that are read together, and as many as one request brings."""
WRITTEN_AT_ONCE = 2_000
"""Items that are held before they are written."""


class Shelf:
    """A table with its settings, shared by the sides of all kinds."""

    def __init__(self, table: Table):
        self.table = table
        self.policies = Policies(table)
        self._known: dict[str, Item] = {}

    def workspaces(self) -> list[str]:
        """The names of all workspaces that something may lie in."""
        query = Query(access_keys.CONFIG_PK, where=access_keys.WORKSPACES.on())
        entries = self.table.items(query)
        names = {str(access_keys.workspace_entry_of(str(entry["SK"]))) for entry in entries}
        return sorted(names | {DEFAULT_WORKSPACE})

    def experiments(self) -> Iterator[list[Item]]:
        """The own items of all experiments, deleted ones included, a few at a time."""
        guards = (
            guard
            for workspace in self.workspaces()
            for guard in self.table.items(
                Query(access_keys.workspace_pk(workspace), where=access_keys.EXPERIMENT_NAMES.on())
            )
        )
        for some in batched(guards, AT_ONCE):
            wanted = [experiment_keys.experiment_key(str(guard["experiment_id"])) for guard in some]
            found = self.table.get_many(wanted)
            yield [found[key] for key in wanted if key in found]

    def experiment_ids(self) -> Iterator[str]:
        """The ids of all experiments."""
        for some in self.experiments():
            yield from (str(experiment_keys.experiment_id_of(str(meta["PK"]))) for meta in some)

    def homes(self, experiment_ids: Iterable[str]) -> dict[str, Item]:
        """The own items of some experiments, by their ids; each is read once."""
        asked = set(experiment_ids)
        unknown = {experiment_keys.experiment_key(one): one for one in asked - self._known.keys()}
        for key, meta in self.table.get_many(unknown).items():
            self._known[unknown[key]] = {
                "lifecycle": meta["lifecycle"],
                "workspace": meta["workspace"],
            }
        return {one: self._known[one] for one in asked if one in self._known}

    def deleted_experiments(self, experiment_ids: Iterable[str]) -> set[str]:
        """Those of some experiments that are deleted."""
        homes = self.homes(experiment_ids)
        return {one for one, home in homes.items() if home["lifecycle"] == LifecycleStage.DELETED}

    def deletion_expiry(self) -> int | None:
        """When what is deleted now expires."""
        return self.policies.expiry(SOFT_DELETED_RETENTION)

    def count_on(self, sequence: str, greatest: int) -> None:
        """Let the next number that is drawn come after one."""
        value = Attr("value")
        try:
            self.table.update(
                access_keys.sequence_key(sequence),
                Update(set={"value": greatest}),
                condition=value.not_exists() | value.lt(greatest),
            )
        except ConditionFailed:
            return  # it does already

    def put(self, items: Iterable[Item]) -> None:
        """Write items in no particular order."""
        for some in batched(items, WRITTEN_AT_ONCE):
            self.table.write([Put(item) for item in some])


class ItemSide(Side):
    """The entities of one kind in a table."""

    def __init__(self, shelf: Shelf):
        self.shelf = shelf
        self.left = Counter()
        self.table = shelf.table


class ListedItems(ItemSide):
    """Entities that have an item of their own each, which are listed one after the other."""

    at_once = AT_ONCE

    def count(self) -> int:
        return sum(1 for _ in self._own_items())

    def pages(self) -> Iterator[list[Entity]]:
        for items in batched(self._own_items(), self.at_once):
            yield self._entities(items)

    @abstractmethod
    def _own_items(self) -> Iterator[Item]:
        """The own items of all entities."""

    @abstractmethod
    def _entities(self, items: Sequence[Item]) -> list[Entity]:
        """The entities of some own items."""


def too_large(items: Sequence[Item]) -> str | None:
    """Why items cannot be written as they are, or None."""
    for item in items:
        size = item_size(item)
        if size > MAX_ITEM_BYTES:
            return (
                f"it takes an item of {size:,} bytes, and an item holds {MAX_ITEM_BYTES:,} at most"
            )
    return None
