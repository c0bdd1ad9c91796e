"""Users, roles and grants as they lie in the table, and as MLflow shows them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mlflow.server.auth.entities import Role, RolePermission, User

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import grants as grant_keys
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
        return cls(
            int(item["id"]),
            str(item["username"]),
            str(item["password_hash"]),
            bool(item["is_admin"]),
        )

    def to_entity(self) -> User:
        return User(self.id, self.username, self.password_hash, self.is_admin)


@dataclass(frozen=True)
class RoleRecord:
    """A role. One that holds a user's own grants in a workspace names that user."""

    id: int
    name: str
    workspace: str
    description: str | None = None
    owner: str | None = None
    owner_id: int | None = None

    @classmethod
    def read(cls, item: Item) -> RoleRecord:
        owner, owner_id = item.get("owner"), item.get("owner_id")
        return cls(
            int(item["id"]),
            str(item["name"]),
            str(item["workspace"]),
            None if item.get("description") is None else str(item["description"]),
            None if owner is None else str(owner),
            None if owner_id is None else int(owner_id),
        )

    def to_item(self) -> Item:
        key = grant_keys.role_key(self.id)
        return {
            "PK": key.pk,
            "SK": key.sk,
            "id": self.id,
            "name": self.name,
            "workspace": self.workspace,
            "description": self.description,
            "owner": self.owner,
            "owner_id": self.owner_id,
        }

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
    return RolePermission(
        grant["id"],
        grant["role_id"],
        grant["resource_type"],
        grant["resource_pattern"],
        grant["permission"],
    )
