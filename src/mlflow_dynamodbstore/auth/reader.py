"""Finding users, roles and grants.

A write depends on what is read from the table. A permission check may use cached answers (see
:mod:`mlflow_dynamodbstore.auth.cache`); the methods that do so have "cached" in their names.
"""

from __future__ import annotations

from collections.abc import Iterable

from mlflow_dynamodbstore.auth.checks import (
    check_text,
    is_number,
    is_text,
    no_such_role,
    no_such_user,
)
from mlflow_dynamodbstore.auth.context import AuthContext
from mlflow_dynamodbstore.auth.records import RoleRecord, UserRecord, own_role_name
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.mlflow_compat.auth import Role
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import Item


class AuthReader:
    """Reads users, roles and grants."""

    def __init__(self, context: AuthContext) -> None:
        self.table = context.table
        self.answers = context.answers

    # --- users ----------------------------------------------------------------------------------

    def find_user(self, username: str) -> UserRecord | None:
        if not is_text(username):
            return None
        item = self.table.get(access_keys.user_key(username))
        return None if item is None else UserRecord.read(item)

    def find_cached_user(self, username: str) -> UserRecord | None:
        return self.answers.answer(("user", username), lambda: self.find_user(username))

    def find_user_by_id(self, user_id: int) -> UserRecord | None:
        entry = self.table.get(grant_keys.user_entry_key(user_id)) if is_number(user_id) else None
        user = None if entry is None else self.find_user(str(entry["username"]))
        return user if user is not None and user.id == user_id else None

    def existing_user(self, username: str) -> UserRecord:
        return self.find_user(username) or no_such_user(username)

    def cached_user(self, username: str) -> UserRecord:
        return self.find_cached_user(username) or no_such_user(username)

    # --- roles ----------------------------------------------------------------------------------

    def find_role(self, role_id: int) -> RoleRecord | None:
        item = self.table.get(grant_keys.role_key(role_id)) if is_number(role_id) else None
        return None if item is None else RoleRecord.read(item)

    def existing_role(self, role_id: int) -> RoleRecord:
        return self.find_role(role_id) or no_such_role(role_id)

    def find_role_by_name(self, workspace: str, name: str) -> RoleRecord | None:
        guard = self.table.get(grant_keys.role_name_guard(name, workspace))
        role = None if guard is None else self.find_role(int(guard["role_id"]))
        # The guard may outlive its role, or its role may have another name by now.
        return role if role is not None and role.name == name else None

    def find_own_role(self, user: UserRecord, workspace: str) -> RoleRecord | None:
        """The role that holds a user's own grants in a workspace."""
        return self.find_role_by_name(workspace, own_role_name(user.id))

    def roles_of(self, user: UserRecord, workspace: str | None = None) -> list[RoleRecord]:
        """The roles of a user, in one workspace or in all, ordered by number."""
        query = Query(access_keys.user_pk(user.username), where=grant_keys.USER_ROLES.on())
        keys = [
            grant_keys.role_key(int(item["role_id"]))
            for item in self.table.items(query)
            if item["user_id"] == user.id and workspace in (None, item["workspace"])
        ]
        found = self.table.get_many(keys)
        return [RoleRecord.read(found[key]) for key in keys if key in found]

    def cached_roles_of(self, user_id: int, workspace: str | None = None) -> list[RoleRecord]:
        """The roles of the user with a number; none if there is no such user."""

        def read() -> list[RoleRecord]:
            user = self.find_user_by_id(user_id)
            return [] if user is None else self.roles_of(user, workspace)

        return self.answers.answer(("roles", user_id, workspace), read)

    def members_of(self, role_id: int) -> list[Item]:
        """The assignments of a role to users."""
        query = Query(grant_keys.role_pk(role_id), where=grant_keys.ROLE_MEMBERS.on())
        return list(self.table.items(query))

    def role_entity(self, role: RoleRecord) -> Role:
        """A role with its grants, as MLflow shows it."""
        return role.to_entity(self.grants_of(role))

    # --- grants ---------------------------------------------------------------------------------

    def grants_of(self, role: RoleRecord, resource_type: str | None = None) -> list[Item]:
        """The grants of a role, for one type of resource or for all, ordered by number."""
        if role.owner is None:
            query = Query(grant_keys.role_pk(role.id), where=grant_keys.ROLE_GRANTS.on())
            found = list(self.table.items(query))
        else:
            found = self.own_grants(role.owner, resource_type, role.workspace)
        return by_number(
            grant
            for grant in found
            if grant["role_id"] == role.id and resource_type in (None, grant["resource_type"])
        )

    def own_grants(
        self, username: str, resource_type: str | None, workspace: str | None
    ) -> list[Item]:
        """A user's own grants; those of other workspaces and types may be among them."""
        ranges = (
            (
                grant_keys.USER_GRANTS,
                access_keys.USER_EXPERIMENT_PERMISSIONS,
                access_keys.USER_MODEL_PERMISSIONS,
            )
            if resource_type is None
            else (grant_keys.own_grants(resource_type, workspace),)
        )
        pk = access_keys.user_pk(username)
        return [item for r in ranges for item in self.table.items(Query(pk, where=r.on()))]

    def find_own_grant(
        self, user: UserRecord, workspace: str, resource_type: str, pattern: str
    ) -> Item | None:
        """A user's own grant for one resource."""
        role = self.find_own_role(user, workspace)
        return None if role is None else self.find_grant(role, resource_type, pattern)

    def find_grant(self, role: RoleRecord, resource_type: str, pattern: str) -> Item | None:
        check_text(pattern, "resource_pattern")
        grant = self.table.get(role.grant_key(resource_type, pattern))
        return grant if grant is not None and grant["role_id"] == role.id else None

    def grants_on(
        self, resource_type: str, pattern: str, workspace: str | None = None
    ) -> list[Item]:
        """All users' own grants for one resource, by consistent reads."""
        pk = grant_keys.resource_grants_pk(resource_type, pattern)
        query = Query(pk, where=grant_keys.resource_grants(workspace).on())
        keys = [
            RoleRecord(
                id=int(mirror["role_id"]),
                name="",
                workspace=str(mirror["workspace"]),
                owner=str(mirror["username"]),
            ).grant_key(resource_type, pattern)
            for mirror in self.table.items(query)
        ]
        found = self.table.get_many(keys)
        return [found[key] for key in keys if key in found]


def by_number(items: Iterable[Item]) -> list[Item]:
    """Grants or assignments in the order of their numbers."""
    return sorted(items, key=lambda item: int(item["id"]))
