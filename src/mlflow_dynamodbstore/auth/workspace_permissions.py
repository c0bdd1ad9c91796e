"""Users' permissions for whole workspaces."""

from __future__ import annotations

from mlflow.server.auth.entities import WorkspacePermission
from mlflow.server.auth.permissions import (
    RESOURCE_TYPE_WORKSPACE,
    Permission,
    _validate_permission_for_resource_type,
    get_permission,
    max_permission,
)

from mlflow_dynamodbstore.auth.base import not_found
from mlflow_dynamodbstore.auth.records import RoleRecord, UserRecord
from mlflow_dynamodbstore.auth.user_grants import UserGrants
from mlflow_dynamodbstore.table.values import Item

ALL = "*"


class WorkspacePermissions(UserGrants):
    """Permissions for workspaces: one slot in each, for the whole of it."""

    def list_workspace_permissions(self, workspace_name: str) -> list[WorkspacePermission]:
        grants = self._grants_for(RESOURCE_TYPE_WORKSPACE, ALL, workspace_name)
        return [_entity(grant) for grant in grants]

    def list_user_workspace_permissions(self, username: str) -> list[WorkspacePermission]:
        user = self._user(username)
        grants = [
            grant
            for role in self._roles_of(user)
            if role.owner_id == user.id
            for grant in self._workspace_grants(role)
        ]
        return [_entity(grant) for grant in grants]

    def set_workspace_permission(
        self, workspace_name: str, username: str, permission: str
    ) -> WorkspacePermission:
        _validate_permission_for_resource_type(permission, RESOURCE_TYPE_WORKSPACE)
        user = self._user(username)
        role = self._own_role(user, workspace_name)
        self._put_grant(role, RESOURCE_TYPE_WORKSPACE, ALL, permission)
        return WorkspacePermission(workspace_name, user.id, permission)

    def delete_workspace_permission(self, workspace_name: str, username: str) -> None:
        grant = self._own_workspace_grant(self._user(username), workspace_name)
        if grant is None or not self._remove_grant(grant):
            not_found(
                "Workspace permission does not exist for "
                f"workspace='{workspace_name}', username='{username}'"
            )

    def delete_workspace_permissions_for_workspace(self, workspace_name: str) -> None:
        for grant in self._grants_for(RESOURCE_TYPE_WORKSPACE, ALL, workspace_name):
            self._remove_grant(grant)

    def list_accessible_workspace_names(self, username: str | None) -> set[str]:
        if username is None:
            return set()
        user = self._user_lately(username)
        names = self.recent.answer(("accessible", user.id), lambda: self._accessible(user))
        return set(names)

    def get_workspace_permission(self, workspace_name: str, username: str) -> Permission | None:
        grant = self._own_workspace_grant(self._user(username), workspace_name)
        return None if grant is None else get_permission(str(grant["permission"]))

    def get_role_workspace_permission(
        self, workspace_name: str, username: str
    ) -> Permission | None:
        best: str | None = None
        for role in self._roles_of(self._user(username), workspace_name):
            for grant in self._workspace_grants(role):
                permission = str(grant["permission"])
                best = permission if best is None else max_permission(best, permission)
        return None if best is None else get_permission(best)

    def _accessible(self, user: UserRecord) -> frozenset[str]:
        """The workspaces a user can see.

        Any role shows its workspace, except the role of somebody's own grants: that one shows it
        only if it allows to read the workspace.
        """
        return frozenset(
            role.workspace
            for role in self._roles_of(user)
            if role.owner is None
            or any(
                get_permission(str(grant["permission"])).can_read
                for grant in self._workspace_grants(role)
            )
        )

    def _workspace_grants(self, role: RoleRecord) -> list[Item]:
        grants = self._grants_of(role, RESOURCE_TYPE_WORKSPACE)
        return [grant for grant in grants if grant["resource_pattern"] == ALL]

    def _own_workspace_grant(self, user: UserRecord, workspace: str) -> Item | None:
        role = self._find_own_role(user, workspace)
        return None if role is None else self._find_grant(role, RESOURCE_TYPE_WORKSPACE, ALL)


def _entity(grant: Item) -> WorkspacePermission:
    return WorkspacePermission(grant["workspace"], grant["user_id"], grant["permission"])
