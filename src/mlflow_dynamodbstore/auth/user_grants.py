"""A user's own grants, for things of any type."""

from __future__ import annotations

from mlflow.exceptions import MlflowException
from mlflow.server.auth.permissions import (
    RESOURCE_TYPE_WORKSPACE,
    _validate_permission_for_resource_type,
    _validate_resource_pattern,
    _validate_resource_type,
)

from mlflow_dynamodbstore.auth.base import already_exists, not_found
from mlflow_dynamodbstore.auth.granting import GrantExistsError, Granting
from mlflow_dynamodbstore.auth.records import RoleRecord
from mlflow_dynamodbstore.keys import grants as grant_keys
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import Item


class UserGrants(Granting):
    """Granting to and revoking from single users, and following what happens to things."""

    def grant_user_permission(
        self, username: str, resource_type: str, resource_pattern: str, permission: str
    ) -> None:
        _validate_resource_pattern(resource_pattern, resource_type)
        _validate_permission_for_resource_type(permission, resource_type)
        role = self._own_role(self._user(username), self._active_workspace())
        self._put_grant(role, resource_type, resource_pattern, permission)

    def grant_user_resource_permission(
        self, username: str, resource_type: str, resource_pattern: str, permission: str
    ) -> None:
        _refuse_workspaces(resource_type)
        _validate_resource_pattern(resource_pattern, resource_type)
        _validate_permission_for_resource_type(permission, resource_type)
        role = self._own_role(self._user(username), self._active_workspace())
        try:
            self._add_grant(role, resource_type, resource_pattern, permission)
        except GrantExistsError as error:
            raise already_exists(
                f"Permission for user={username} on resource_type={resource_type}, "
                f"resource_id={resource_pattern} already exists."
            ) from error

    def revoke_user_resource_permission(
        self, username: str, resource_type: str, resource_pattern: str
    ) -> None:
        _refuse_workspaces(resource_type)
        _validate_resource_type(resource_type)
        role = self._find_own_role(self._user(username), self._active_workspace())
        grant = None if role is None else self._find_grant(role, resource_type, resource_pattern)
        if grant is None or not self._remove_grant(grant):
            not_found(
                f"Permission for user={username} on resource_type={resource_type}, "
                f"resource_id={resource_pattern} not found."
            )

    def delete_grants_for_resource(
        self, resource_type: str, resource_pattern: str, *, workspace_scoped: bool = False
    ) -> None:
        workspace = self._active_workspace() if workspace_scoped else None
        for grant in self._grants_for(resource_type, resource_pattern, workspace):
            self._remove_grant(grant)

    def rename_grants_for_resource(
        self,
        resource_type: str,
        old_pattern: str,
        new_pattern: str,
        *,
        workspace_scoped: bool = False,
    ) -> None:
        workspace = self._active_workspace() if workspace_scoped else None
        if old_pattern == new_pattern:
            return
        for grant in self._grants_for(resource_type, old_pattern, workspace):
            role = self._find_role(int(grant["role_id"]))
            if role is not None:
                # The new one first: whoever may use the thing may use it all the while.
                self._put_grant(role, resource_type, new_pattern, str(grant["permission"]))
            self._remove_grant(grant)

    def _grants_for(
        self, resource_type: str, pattern: str, workspace: str | None = None
    ) -> list[Item]:
        """All users' own grants for one thing, by consistent reads."""
        place = grant_keys.resource_grants_pk(resource_type, pattern)
        query = Query(place, where=grant_keys.resource_grants(workspace).on())
        wanted = [
            RoleRecord(
                id=int(mirror["role_id"]),
                name="",
                workspace=str(mirror["workspace"]),
                owner=str(mirror["username"]),
            ).grant_key(resource_type, pattern)
            for mirror in self.table.items(query)
        ]
        found = self.table.get_many(wanted)
        return [found[key] for key in wanted if key in found]


def _refuse_workspaces(resource_type: str) -> None:
    if resource_type == RESOURCE_TYPE_WORKSPACE:
        raise MlflowException.invalid_parameter_value(
            "resource_type 'workspace' is not supported by the per-user permission "
            "convenience APIs. Use set_workspace_permission / "
            "delete_workspace_permission for workspace-wide grants."
        )
