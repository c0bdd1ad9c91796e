"""Workspaces, in a database and in a table.

The default one is always there, on both sides, with a description that nobody has given it. While
it has nothing else to say, the other side's settings take its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.transfer.sql.database import Row
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntityKey, Side
from mlflow_dynamodbstore.transfer.sql.items import AT_ONCE, ItemSide
from mlflow_dynamodbstore.transfer.sql.rows import RowSide
from mlflow_dynamodbstore.workspaces.store import DEFAULT_DESCRIPTION, SETTINGS

_DEFAULT = (DEFAULT_WORKSPACE,)
_GIVEN_BY_NOBODY = (DEFAULT_DESCRIPTION, "Default workspace for legacy resources")


class WorkspaceRows(RowSide):
    """Workspaces in a database."""

    table = "workspaces"
    key = ("name",)
    columns = SETTINGS

    def shaped(self, entity: Entity, row: Row) -> Entity:
        return _entity(entity.key, row)

    def merge(self, entity: Entity, there: Entity) -> bool:
        if not _is_unset_default(there):
            return False
        with self.database.writing() as writing:
            writing.delete(self.table, {"name": DEFAULT_WORKSPACE})
            self.insert(writing, [entity])
        return True


class WorkspaceItems(ItemSide):
    """Workspaces in a table, where the default one has an item once it is changed."""

    def count(self) -> int:
        return sum(len(page) for page in self.pages())

    def pages(self) -> Iterator[list[Entity]]:
        names = self.shelf.workspaces()
        for n in range(0, len(names), AT_ONCE):
            some = [Entity((name,), {}) for name in names[n : n + AT_ONCE]]
            yield list(self.read(some).values())

    def read(self, like: Sequence[Entity]) -> dict[EntityKey, Entity]:
        wanted = {access_keys.workspace_key(entity.key[0]): entity.key for entity in like}
        found = {wanted[key]: item for key, item in self.table.get_many(wanted).items()}
        if _DEFAULT in wanted.values():
            found.setdefault(_DEFAULT, {})
        return {key: _entity(key, item) for key, item in found.items()}

    def write(self, entities: Sequence[Entity], source: Side) -> None:
        del source
        for entity in entities:
            key, entry = (
                access_keys.workspace_key(entity.key[0]),
                access_keys.workspace_entry_key(entity.key[0]),
            )
            settings = {name: value for name, value in entity.values.items() if value is not None}
            # The entry first: it is passed over without a workspace, the reverse would hide one.
            self.shelf.put([{"PK": entry.pk, "SK": entry.sk}])
            self.shelf.put([{"PK": key.pk, "SK": key.sk, **settings}])

    def merge(self, entity: Entity, there: Entity) -> bool:
        if not _is_unset_default(there):
            return False
        self.write([entity], self)
        return True


def _entity(key: EntityKey, settings: Item) -> Entity:
    values = {name: settings.get(name) for name in SETTINGS}
    if key == _DEFAULT and values["description"] in _GIVEN_BY_NOBODY:
        values["description"] = None
    return Entity(key, values)


def _is_unset_default(workspace: Entity) -> bool:
    return workspace.key == _DEFAULT and not any(workspace.values.values())
