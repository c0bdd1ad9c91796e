"""What lies in a workspace, and what becomes of it when the workspace is deleted.

Each kind of resource is found by its guards in the partition of the workspace. To move a resource
is to give it another guard, to remove it is to remove its partition. In either case its old guard
goes last, so that what was interrupted is taken up when the workspace is deleted again.

A kind of resource that is added to the project is added to :data:`KINDS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore import keys
from mlflow_dynamodbstore.keys import Range
from mlflow_dynamodbstore.partitions import copy_partition, empty_partition
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.tracking.experiment_items import name_of

FROM = "moving_from"
"""Attribute of a new guard: the name is held for what is being moved here from this workspace."""
MOVED = "moved"
"""Attribute of an old guard: what it names has been moved, and only remains are left."""


class Kind(ABC):
    """A kind of resource; ``label`` is what MLflow's messages call it."""

    label: str
    names: Range

    @abstractmethod
    def guard_key(self, name: str, workspace: str) -> Key:
        """The guard of a name."""

    @abstractmethod
    def remove(self, table: Table, guard: Item) -> None:
        """Remove a resource for good."""

    @abstractmethod
    def move(self, table: Table, guard: Item) -> None:
        """Move a resource to the default workspace. Raises when its name is taken there."""


def guards(kind: Kind, table: Table, workspace: str) -> Iterator[Item]:
    """The guards of what a workspace holds of a kind."""
    return table.items(Query(keys.workspace_pk(workspace), where=kind.names.on()))


def conflicts(kind: Kind, table: Table, workspace: str) -> list[str]:
    """The names that are taken in the default workspace, too."""
    wanted = {
        kind.guard_key(name_of(guard), keys.DEFAULT_WORKSPACE): name_of(guard)
        for guard in guards(kind, table, workspace)
        if MOVED not in guard
    }
    taken = table.get_many(wanted)
    return [wanted[key] for key in wanted if key in taken and taken[key].get(FROM) != workspace]


class Experiments(Kind):
    """Experiments have a partition that does not depend on the workspace."""

    label = "experiments"
    names = keys.EXPERIMENT_NAMES

    def guard_key(self, name: str, workspace: str) -> Key:
        return keys.experiment_name_guard(name, workspace)

    def remove(self, table: Table, guard: Item) -> None:
        empty_partition(table, keys.experiment_pk(str(guard["experiment_id"])))
        table.delete(table.schema.key_of(guard))

    def move(self, table: Table, guard: Item) -> None:
        experiment_id, name = str(guard["experiment_id"]), name_of(guard)
        index = keys.experiment_index(experiment_id=experiment_id, name=name)
        table.transact(
            [
                Patch(
                    keys.experiment_key(experiment_id),
                    Update(set={"workspace": keys.DEFAULT_WORKSPACE, **index}),
                    condition=Attr("name").eq(name),
                ),
                Put(_in_default(self, guard), condition=Attr("PK").not_exists()),
                Delete(table.schema.key_of(guard)),
            ]
        )


class Models(Kind):
    """Registered models have a partition whose key names the workspace: moving is copying."""

    label = "registered_models"
    names = keys.MODEL_NAMES

    def guard_key(self, name: str, workspace: str) -> Key:
        return keys.model_name_guard(name, workspace)

    def remove(self, table: Table, guard: Item) -> None:
        empty_partition(table, keys.model_pk(name_of(guard), _workspace_of(guard)))
        table.delete(table.schema.key_of(guard))

    def move(self, table: Table, guard: Item) -> None:
        if MOVED not in guard:
            self._copy(table, guard)
        self.remove(table, guard)

    def _copy(self, table: Table, guard: Item) -> None:
        name, workspace = name_of(guard), _workspace_of(guard)
        meta = table.get(keys.model_key(name, workspace))
        if meta is None:
            return
        there = _in_default(self, guard)
        # The name first, so that nobody else begins a model where this one is copied to; the
        # model's own item last, so that it is never seen without what belongs to it.
        table.put(
            {**there, FROM: workspace},
            condition=Attr("PK").not_exists() | Attr(FROM).eq(workspace),
        )
        copy_partition(
            table,
            keys.model_pk(name, workspace),
            lambda item: _moved(item, name, workspace),
            without=frozenset({keys.MODEL_META}),
        )
        table.transact(
            [
                Put(_moved(meta, name, workspace)),
                Put(there),
                Delete(keys.model_key(name, workspace)),
                Put({**guard, MOVED: True}),
            ]
        )


def _in_default(kind: Kind, guard: Item) -> Item:
    """The guard of the same resource in the default workspace."""
    key = kind.guard_key(name_of(guard), keys.DEFAULT_WORKSPACE)
    return {**guard, "PK": key.pk, "SK": key.sk}


def _moved(item: Item, name: str, workspace: str) -> Item:
    """An item of a model as it is in the default workspace."""
    before = {"workspace": workspace, **keys.model_index(name=name, workspace=workspace)}
    after = {"workspace": keys.DEFAULT_WORKSPACE, **keys.model_index(name=name)}
    changed = {a: after[a] for a in before if item.get(a) == before[a]}
    return {**item, "PK": keys.model_pk(name), **changed}


def _workspace_of(guard: Item) -> str:
    workspace = keys.workspace_of(str(guard["PK"]))
    assert workspace is not None  # names of workspaces are short
    return workspace


KINDS: tuple[Kind, ...] = (Models(), Experiments())
