"""Users, roles and grants as they lie in the table, and as MLflow shows them.

The fields of a record are attributes of its item.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields
from typing import Any

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.mlflow_compat.auth import Role, RolePermission, User
from mlflow_dynamodbstore.table.values import Item, Key

ALL = "*"
"""The pattern of a grant for all resources of its type."""
OWN_ROLE_PREFIX = "__user_"
_OWN_ROLE = re.compile(r"__user_\d+__")


@dataclass(frozen=True)
class UserRecord:
    """A user."""

    id: int
    username: str
    password_hash: str
    is_admin: bool

    @classmethod
    def read(cls, item: Item) -> UserRecord:
        is_admin = bool(item["is_admin"])  # an import may write 0, 1 or None
        return cls(item["id"], item["username"], item["password_hash"], is_admin)

    def to_item(self) -> Item:
        key = access_keys.user_key(self.username)
        return {"PK": key.pk, "SK": key.sk, **asdict(self)}

    def to_entity(self) -> User:
        return User(self.id, self.username, self.password_hash, self.is_admin)


@dataclass(frozen=True)
class RoleRecord:
    """A role; if it holds a user's own grants, ``owner`` is that user."""

    id: int
    name: str
    workspace: str
    description: str | None = None
    owner: str | None = None
    owner_id: int | None = None

    @classmethod
    def read(cls, item: Item) -> RoleRecord:
        values: dict[str, Any] = {field.name: item.get(field.name) for field in fields(cls)}
        return cls(**values)

    def to_item(self) -> Item:
        key = grant_keys.role_key(self.id)
        return {"PK": key.pk, "SK": key.sk, **asdict(self)}

    def grant_key(self, resource_type: str, pattern: str) -> Key:
        """Where a grant of this role lies."""
        if self.owner is None:
            return Key(grant_keys.role_pk(self.id), grant_keys.role_grant(resource_type, pattern))
        return Key(
            access_keys.user_pk(self.owner),
            grant_keys.own_grant(resource_type, pattern, self.workspace),
        )

    def to_entity(self, grants: list[Item]) -> Role:
        permissions = [permission_entity(grant) for grant in grants]
        return Role(self.id, self.name, self.workspace, self.description, permissions)


def own_role_name(user_id: int) -> str:
    """The name that MLflow gives to the role of a user's own grants."""
    return f"{OWN_ROLE_PREFIX}{user_id}__"


def is_own_role_name(name: str) -> bool:
    """Whether a role of this name holds a user's own grants."""
    return _OWN_ROLE.fullmatch(name) is not None


def permission_entity(grant: Item) -> RolePermission:
    """A grant as MLflow shows it."""
    named = ("id", "role_id", "resource_type", "resource_pattern", "permission")
    return RolePermission(*(grant[name] for name in named))
