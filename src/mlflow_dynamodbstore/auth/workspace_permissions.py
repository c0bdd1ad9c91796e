"""Users' permissions for whole workspaces."""

from __future__ import annotations

from mlflow_dynamodbstore.auth.checks import refuse_missing
from mlflow_dynamodbstore.auth.context import AuthContext
from mlflow_dynamodbstore.auth.grant_writer import GrantWriter
from mlflow_dynamodbstore.auth.own_roles import OwnRoles
from mlflow_dynamodbstore.auth.permission_checks import best_permission
from mlflow_dynamodbstore.auth.reader import AuthReader
from mlflow_dynamodbstore.auth.records import ALL, RoleRecord, UserRecord
from mlflow_dynamodbstore.mlflow_compat.auth import (
    RESOURCE_TYPE_WORKSPACE,
    Permission,
    WorkspacePermission,
    get_permission,
    validate_permission_for_resource_type,
)
from mlflow_dynamodbstore.table.values import Item


class WorkspacePermissions:
    """Permissions for workspaces: a user has at most one in each, for the whole workspace."""

    def __init__(
        self, context: AuthContext, reader: AuthReader, grants: GrantWriter, own_roles: OwnRoles
    ) -> None:
        self.answers = context.answers
        self.reader = reader
        self.grants = grants
        self.own_roles = own_roles

    def delete_workspace_permissions_for_workspace(self, workspace_name: str) -> None:
        for grant in self.reader.grants_on(RESOURCE_TYPE_WORKSPACE, ALL, workspace_name):
            self.grants.remove_grant(grant)

    def list_workspace_permissions(self, workspace_name: str) -> list[WorkspacePermission]:
        grants = self.reader.grants_on(RESOURCE_TYPE_WORKSPACE, ALL, workspace_name)
        return [_entity(grant) for grant in grants]

    def list_user_workspace_permissions(self, username: str) -> list[WorkspacePermission]:
        user = self.reader.existing_user(username)
        return [
            _entity(grant)
            for role in self.reader.roles_of(user)
            if role.owner_id == user.id
            for grant in self._workspace_grants(role)
        ]

    def set_workspace_permission(
        self, workspace_name: str, username: str, permission: str
    ) -> WorkspacePermission:
        validate_permission_for_resource_type(permission, RESOURCE_TYPE_WORKSPACE)
        user = self.reader.existing_user(username)
        role = self.own_roles.own_role(user, workspace_name)
        self.grants.put_grant(role, RESOURCE_TYPE_WORKSPACE, ALL, permission)
        return WorkspacePermission(workspace_name, user.id, permission)

    def delete_workspace_permission(self, workspace_name: str, username: str) -> None:
        grant = self._own_workspace_grant(username, workspace_name)
        if grant is None or not self.grants.remove_grant(grant):
            refuse_missing(
                "Workspace permission does not exist for "
                f"workspace='{workspace_name}', username='{username}'"
            )

    def list_accessible_workspace_names(self, username: str | None) -> set[str]:
        if username is None:
            return set()
        user = self.reader.cached_user(username)
        return set(self.answers.answer(("accessible", user.id), lambda: self._accessible(user)))

    def get_workspace_permission(self, workspace_name: str, username: str) -> Permission | None:
        grant = self._own_workspace_grant(username, workspace_name)
        return None if grant is None else get_permission(str(grant["permission"]))

    def get_role_workspace_permission(
        self, workspace_name: str, username: str
    ) -> Permission | None:
        roles = self.reader.roles_of(self.reader.existing_user(username), workspace_name)
        return best_permission(
            [str(grant["permission"]) for role in roles for grant in self._workspace_grants(role)]
        )

    def _accessible(self, user: UserRecord) -> frozenset[str]:
        """The workspaces a user can see.

        A role shows its workspace. The role of a user's own grants shows it only if it allows
        reading the workspace.
        """
        return frozenset(
            role.workspace
            for role in self.reader.roles_of(user)
            if role.owner is None
            or any(
                get_permission(str(grant["permission"])).can_read
                for grant in self._workspace_grants(role)
            )
        )

    def _workspace_grants(self, role: RoleRecord) -> list[Item]:
        grants = self.reader.grants_of(role, RESOURCE_TYPE_WORKSPACE)
        return [grant for grant in grants if grant["resource_pattern"] == ALL]

    def _own_workspace_grant(self, username: str, workspace: str) -> Item | None:
        user = self.reader.existing_user(username)
        return self.reader.find_own_grant(user, workspace, RESOURCE_TYPE_WORKSPACE, ALL)


def _entity(grant: Item) -> WorkspacePermission:
    return WorkspacePermission(grant["workspace"], grant["user_id"], grant["permission"])
