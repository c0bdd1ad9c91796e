"""Users' own grants, for resources of any type."""

from __future__ import annotations

from mlflow_dynamodbstore.auth.checks import check_text, refuse_missing
from mlflow_dynamodbstore.auth.context import AuthContext
from mlflow_dynamodbstore.auth.grant_writer import GrantExistsError, GrantWriter
from mlflow_dynamodbstore.auth.own_roles import OwnRoles
from mlflow_dynamodbstore.auth.reader import AuthReader
from mlflow_dynamodbstore.auth.records import RoleRecord
from mlflow_dynamodbstore.mlflow_compat.auth import (
    RESOURCE_TYPE_WORKSPACE,
    validate_permission_for_resource_type,
    validate_resource_pattern,
    validate_resource_type,
)
from mlflow_dynamodbstore.shared.refusals import already_exists, invalid


class UserGrants:
    """Granting to single users, and following resources that are renamed or deleted."""

    def __init__(
        self, context: AuthContext, reader: AuthReader, grants: GrantWriter, own_roles: OwnRoles
    ) -> None:
        self.context = context
        self.reader = reader
        self.grants = grants
        self.own_roles = own_roles

    def grant_user_permission(
        self, username: str, resource_type: str, resource_pattern: str, permission: str
    ) -> None:
        validate_resource_pattern(resource_pattern, resource_type)
        validate_permission_for_resource_type(permission, resource_type)
        check_text(resource_pattern, "resource_pattern")
        self.grants.put_grant(self._own_role(username), resource_type, resource_pattern, permission)

    def grant_user_resource_permission(
        self, username: str, resource_type: str, resource_pattern: str, permission: str
    ) -> None:
        _refuse_workspaces(resource_type)
        validate_resource_pattern(resource_pattern, resource_type)
        validate_permission_for_resource_type(permission, resource_type)
        check_text(resource_pattern, "resource_pattern")
        role = self._own_role(username)
        try:
            self.grants.add_grant(role, resource_type, resource_pattern, permission)
        except GrantExistsError as error:
            raise already_exists(
                f"Permission for user={username} on resource_type={resource_type}, "
                f"resource_id={resource_pattern} already exists."
            ) from error

    def revoke_user_resource_permission(
        self, username: str, resource_type: str, resource_pattern: str
    ) -> None:
        _refuse_workspaces(resource_type)
        validate_resource_type(resource_type)
        grant = self.reader.find_own_grant(
            self.reader.existing_user(username),
            self.context.workspace(),
            resource_type,
            resource_pattern,
        )
        if grant is None or not self.grants.remove_grant(grant):
            refuse_missing(
                f"Permission for user={username} on resource_type={resource_type}, "
                f"resource_id={resource_pattern} not found."
            )

    def delete_grants_for_resource(
        self, resource_type: str, resource_pattern: str, *, workspace_scoped: bool = False
    ) -> None:
        workspace = self.context.workspace() if workspace_scoped else None
        for grant in self.reader.grants_on(resource_type, resource_pattern, workspace):
            self.grants.remove_grant(grant)

    def rename_grants_for_resource(
        self,
        resource_type: str,
        old_pattern: str,
        new_pattern: str,
        *,
        workspace_scoped: bool = False,
    ) -> None:
        workspace = self.context.workspace() if workspace_scoped else None
        if old_pattern == new_pattern:
            return
        for grant in self.reader.grants_on(resource_type, old_pattern, workspace):
            role = self.reader.find_role(int(grant["role_id"]))
            if role is not None:
                # The new grant is written before the old one goes: nobody loses access in between.
                permission = str(grant["permission"])
                self.grants.put_grant(role, resource_type, new_pattern, permission)
            self.grants.remove_grant(grant)

    def _own_role(self, username: str) -> RoleRecord:
        return self.own_roles.own_role(
            self.reader.existing_user(username), self.context.workspace()
        )


def _refuse_workspaces(resource_type: str) -> None:
    if resource_type == RESOURCE_TYPE_WORKSPACE:
        raise invalid(
            "resource_type 'workspace' is not supported by the per-user permission "
            "convenience APIs. Use set_workspace_permission / "
            "delete_workspace_permission for workspace-wide grants."
        )
