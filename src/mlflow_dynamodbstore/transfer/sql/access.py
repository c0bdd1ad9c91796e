"""Users, roles and their grants, in a database and in a table.

MLflow's auth app has its own tables, usually in a database of their own. A user's own grants belong
to a role that only this user has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from mlflow_dynamodbstore.auth.context import AuthContext
from mlflow_dynamodbstore.auth.items import assignment_items, grant_item, grant_number, mirror_items
from mlflow_dynamodbstore.auth.reader import AuthReader
from mlflow_dynamodbstore.auth.records import RoleRecord, UserRecord, is_own_role_name
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.workspaces import all_workspaces
from mlflow_dynamodbstore.table.contract import Put, Query
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.transfer.sql.database import Row, Transaction
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntityKey, EntitySource
from mlflow_dynamodbstore.transfer.sql.items import AT_ONCE, ItemStore, TransferTable
from mlflow_dynamodbstore.transfer.sql.rows import ChildTable, RowStore

USERNAMES = "usernames"
"""A hint of a role: the names of its members, by their ids."""


class UserRows(RowStore):
    """Users in a database."""

    table = "users"
    key = ("id",)
    columns = ("username", "password_hash", "is_admin")

    def insert(self, transaction: Transaction, entities: Sequence[Entity]) -> None:
        super().insert(transaction, entities)
        transaction.advance_sequence("users", "id")


class RoleRows(RowStore):
    """Roles in a database; their grants get new numbers there, as in a table."""

    table = "roles"
    key = ("id",)
    columns = ("name", "workspace", "description")
    children: ClassVar = {
        "permissions": ChildTable(
            "role_permissions", ("role_id",), ("resource_type", "resource_pattern"), ("permission",)
        ),
        "members": ChildTable("user_role_assignments", ("role_id",), ("user_id",), ("id",)),
    }

    def insert(self, transaction: Transaction, entities: Sequence[Entity]) -> None:
        super().insert(transaction, entities)
        for table in ("roles", "user_role_assignments"):
            transaction.advance_sequence(table, "id")

    def _entities(self, rows: Sequence[Row]) -> list[Entity]:
        made = super()._entities(rows)
        ids = {(user_id,) for entity in made for user_id in entity.values["members"]}
        found = self.database.rows_with("users", ("id",), sorted(ids))
        names = {row["id"]: row["username"] for row in found}
        for entity in made:
            entity.hints[USERNAMES] = {one: names.get(one) for one in entity.values["members"]}
        return made


class UserItems(ItemStore):
    """Users in a table."""

    def count(self) -> int:
        return sum(1 for _ in self._names())

    def pages(self) -> Iterator[list[Entity]]:
        for names in batched(self._names(), AT_ONCE):
            yield self._entities(names)

    def read(self, like: Sequence[Entity]) -> dict[EntityKey, Entity]:
        names = [str(entity.values["username"]) for entity in like]
        return {entity.key: entity for entity in self._entities(names)}

    def refusals(self, entities: Sequence[Entity]) -> dict[EntityKey, str]:
        wanted = {
            key: entity
            for entity in entities
            for key in (
                access_keys.user_key(entity.values["username"]),
                grant_keys.user_entry_key(entity.key[0]),
            )
        }
        taken = self.table.get_many(wanted)
        return {wanted[key].key: "another user has its name or number" for key in taken}

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        self.transfer_table.raise_counter("user", max(entity.key[0] for entity in entities))
        for entity in entities:
            (user_id,), username = entity.key, entity.values["username"]
            key, entry = access_keys.user_key(username), grant_keys.user_entry_key(user_id)
            user = {"PK": key.pk, "SK": key.sk, "id": user_id, **entity.values}
            listed = {"PK": entry.pk, "SK": entry.sk, "username": username}
            self.table.transact([Put(user, condition=ABSENT), Put(listed, condition=ABSENT)])

    def _names(self) -> Iterator[str]:
        entries = self.table.items(Query(access_keys.CONFIG_PK, where=grant_keys.USER_ENTRIES.on()))
        return (str(entry["username"]) for entry in entries)

    def _entities(self, names: Sequence[str]) -> list[Entity]:
        found = self.table.get_many(access_keys.user_key(name) for name in names)
        users = [UserRecord.read(item) for item in found.values()]
        return [
            Entity(
                (user.id,),
                {
                    "username": user.username,
                    "password_hash": user.password_hash,
                    "is_admin": user.is_admin,
                },
            )
            for user in users
        ]


class RoleItems(ItemStore):
    """Roles in a table."""

    def __init__(self, transfer_table: TransferTable):
        super().__init__(transfer_table)
        self._reader = AuthReader(AuthContext.on(transfer_table.table))

    def count(self) -> int:
        return sum(1 for _ in self._ids())

    def pages(self) -> Iterator[list[Entity]]:
        for some in batched(self._ids(), AT_ONCE):
            yield self._entities(some)

    def read(self, like: Sequence[Entity]) -> dict[EntityKey, Entity]:
        return {entity.key: entity for entity in self._entities([e.key[0] for e in like])}

    def refusals(self, entities: Sequence[Entity]) -> dict[EntityKey, str]:
        guards = {
            grant_keys.role_name_guard(e.values["name"], e.values["workspace"]): e.key
            for e in entities
        }
        taken = self.table.get_many(guards)
        why = {guards[key]: "another role of its workspace has its name" for key in taken}
        members = {
            access_keys.user_key(name): user_id
            for entity in entities
            for user_id, name in entity.hints[USERNAMES].items()
            if name is not None
        }
        known = {
            user_id
            for key, item in self.table.get_many(members).items()
            if (user_id := members[key]) == item["id"]
        }
        for entity in entities:
            unknown = sorted(entity.values["members"].keys() - known)
            if unknown:
                why[entity.key] = f"its member, user {unknown[0]}, is missing or another user"
        return why

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        del source
        numbers = [n for entity in entities for n in entity.values["members"].values()]
        self.transfer_table.raise_counter("role", max(entity.key[0] for entity in entities))
        self.transfer_table.raise_counter("role_assignment", max(numbers, default=0))
        for entity in entities:
            role, below = _items(entity)
            entry = access_keys.workspace_entry_key(role.workspace)
            # The role last: until its own item exists, nothing counts.
            self.transfer_table.put([{"PK": entry.pk, "SK": entry.sk}, *below])
            guard = grant_keys.role_name_guard(role.name, role.workspace)
            named = {"PK": guard.pk, "SK": guard.sk, "role_id": role.id}
            granted = {"granted": len(entity.values["permissions"])}
            self.table.transact([Put(named, condition=ABSENT), Put({**role.to_item(), **granted})])

    def _ids(self) -> Iterator[int]:
        for workspace in all_workspaces(self.table):
            query = Query(access_keys.workspace_pk(workspace), where=grant_keys.ROLE_NAMES.on())
            yield from (int(guard["role_id"]) for guard in self.table.items(query))

    def _entities(self, role_ids: Sequence[int]) -> list[Entity]:
        found = self.table.get_many(grant_keys.role_key(one) for one in role_ids)
        return self.table.map(self._entity, [RoleRecord.read(item) for item in found.values()])

    def _entity(self, role: RoleRecord) -> Entity:
        members = list(
            self.table.items(Query(grant_keys.role_pk(role.id), where=grant_keys.ROLE_MEMBERS.on()))
        )
        values: dict[str, Any] = {
            "name": role.name,
            "workspace": role.workspace,
            "description": role.description,
            "permissions": {
                (grant["resource_type"], grant["resource_pattern"]): grant["permission"]
                for grant in self._reader.grants_of(role)
            },
            "members": {int(member["user_id"]): int(member["id"]) for member in members},
        }
        names = {int(member["user_id"]): str(member["username"]) for member in members}
        return Entity((role.id,), values, {USERNAMES: names})


def _items(entity: Entity) -> tuple[RoleRecord, list[Item]]:
    """A role, and the items that are written before its own."""
    (role_id,), values, names = entity.key, entity.values, entity.hints[USERNAMES]
    owner_id = min(names, default=None) if is_own_role_name(values["name"]) else None
    owner = None if owner_id is None else names[owner_id]
    role = RoleRecord(
        role_id, values["name"], values["workspace"], values["description"], owner, owner_id
    )
    below: list[Item] = []
    for count, ((kind, pattern), permission) in enumerate(values["permissions"].items(), 1):
        grant = grant_item(role, grant_number(role, count), kind, pattern, permission)
        below += [grant, *mirror_items(grant)]
    for user_id, number in values["members"].items():
        below += assignment_items(role, user_id, names[user_id], number)
    return role, below
