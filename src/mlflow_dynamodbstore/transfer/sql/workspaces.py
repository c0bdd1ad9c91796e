"""Workspaces, in a database and in a table.

The default workspace always exists in both, with a description that nobody chose. While it has no
other settings, those of the other side replace it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.workspaces import DEFAULT_DESCRIPTION, all_workspaces
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.transfer.sql.database import Row
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntityKey, EntitySource
from mlflow_dynamodbstore.transfer.sql.items import AT_ONCE, ItemStore
from mlflow_dynamodbstore.transfer.sql.rows import RowStore
from mlflow_dynamodbstore.workspaces.store import SETTINGS

_DEFAULT = (DEFAULT_WORKSPACE,)
_DEFAULT_DESCRIPTIONS = (DEFAULT_DESCRIPTION, "Default workspace for legacy resources")


class WorkspaceRows(RowStore):
    """Workspaces in a database."""

    table = "workspaces"
    key = ("name",)
    columns = SETTINGS

    def normalised(self, entity: Entity, row: Row) -> Entity:
        return _entity(entity.key, row)

    def merge(self, entity: Entity, existing: Entity) -> bool:
        if not _is_unset_default(existing):
            return False
        with self.database.transaction() as transaction:
            transaction.delete(self.table, {"name": DEFAULT_WORKSPACE})
            self.insert(transaction, [entity])
        return True


class WorkspaceItems(ItemStore):
    """Workspaces in a table, where the default one may have no item yet."""

    def count(self) -> int:
        return sum(len(page) for page in self.pages())

    def pages(self) -> Iterator[list[Entity]]:
        for names in batched(all_workspaces(self.table), AT_ONCE):
            yield list(self.read([Entity((name,), {}) for name in names]).values())

    def read(self, like: Sequence[Entity]) -> dict[EntityKey, Entity]:
        wanted = {access_keys.workspace_key(entity.key[0]): entity.key for entity in like}
        found = {wanted[key]: item for key, item in self.table.get_many(wanted).items()}
        if _DEFAULT in wanted.values():
            found.setdefault(_DEFAULT, {})
        return {key: _entity(key, item) for key, item in found.items()}

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        for entity in entities:
            key, entry = (
                access_keys.workspace_key(entity.key[0]),
                access_keys.workspace_entry_key(entity.key[0]),
            )
            settings = {name: value for name, value in entity.values.items() if value is not None}
            # The entry first: an entry without a workspace is skipped, the reverse hides it.
            self.transfer_table.put([{"PK": entry.pk, "SK": entry.sk}])
            self.transfer_table.put([{"PK": key.pk, "SK": key.sk, **settings}])

    def merge(self, entity: Entity, existing: Entity) -> bool:
        if not _is_unset_default(existing):
            return False
        self.write([entity], self)
        return True


def _entity(key: EntityKey, settings: Item) -> Entity:
    values = {name: settings.get(name) for name in SETTINGS}
    if key == _DEFAULT and values["description"] in _DEFAULT_DESCRIPTIONS:
        values["description"] = None
    return Entity(key, values)


def _is_unset_default(workspace: Entity) -> bool:
    return workspace.key == _DEFAULT and not any(workspace.values.values())
