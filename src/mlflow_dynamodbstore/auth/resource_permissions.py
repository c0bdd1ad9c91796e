"""A user's permission for one thing: what the older calls for each type of thing have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from mlflow.server.auth.permissions import _validate_permission_for_resource_type

from mlflow_dynamodbstore.auth.base import already_exists, not_found
from mlflow_dynamodbstore.auth.granting import GrantExistsError, Granting
from mlflow_dynamodbstore.auth.records import UserRecord
from mlflow_dynamodbstore.table.values import Item

E = TypeVar("E")


@dataclass(frozen=True)
class Subject(Generic[E]):
    """What a permission is for: its type, how grants name it, and what MLflow's messages say."""

    resource_type: str
    pattern: str
    exists: str
    missing: str
    entity: Callable[[UserRecord, Item], E]

    @classmethod
    def named(
        cls,
        resource_type: str,
        label: str,
        argument: str,
        pattern: str,
        username: str,
        entity: Callable[[UserRecord, Item], E],
    ) -> Subject[E]:
        """Something that one argument of MLflow's calls names."""
        which = f"{argument}={pattern}"
        exists = f"{label} permission ({which}, username={username}) already exists."
        missing = f"{label} permission with {which} and username={username} not found"
        return cls(resource_type, pattern, exists, missing, entity)


class ResourcePermissions(Granting):
    """Creating, reading, changing and deleting one permission of one user."""

    def _create_permission(self, subject: Subject[E], username: str, permission: str) -> E:
        _validate_permission_for_resource_type(permission, subject.resource_type)
        user = self._user(username)
        role = self._own_role(user, self._active_workspace())
        try:
            grant = self._add_grant(role, subject.resource_type, subject.pattern, permission)
        except GrantExistsError as error:
            raise already_exists(subject.exists) from error
        return subject.entity(user, grant)

    def _get_permission(self, subject: Subject[E], username: str) -> E:
        return subject.entity(*self._permission(subject, username))

    def _update_permission(self, subject: Subject[E], username: str, permission: str) -> E:
        _validate_permission_for_resource_type(permission, subject.resource_type)
        user, grant = self._permission(subject, username)
        changed = self._set_permission(grant, permission)
        return subject.entity(user, changed or not_found(subject.missing))

    def _delete_permission(self, subject: Subject[E], username: str) -> None:
        _, grant = self._permission(subject, username)
        if not self._remove_grant(grant):
            not_found(subject.missing)

    def _permission(self, subject: Subject[E], username: str) -> tuple[UserRecord, Item]:
        user = self._user(username)
        role = self._find_own_role(user, self._active_workspace())
        grant = (
            None if role is None else self._find_grant(role, subject.resource_type, subject.pattern)
        )
        return user, grant or not_found(subject.missing)

    def _permissions(
        self, username: str, resource_type: str, *, everywhere: bool = False
    ) -> tuple[UserRecord, list[Item]]:
        """A user and the user's own grants for a type, here or in all workspaces."""
        workspace = None if everywhere else self._active_workspace()
        user = self._user(username)
        grants = [
            grant
            for grant in self._own_grants(user.username, resource_type, workspace)
            if grant["user_id"] == user.id
            and grant["resource_type"] == resource_type
            and workspace in (None, grant["workspace"])
        ]
        return user, sorted(grants, key=lambda grant: int(grant["id"]))
