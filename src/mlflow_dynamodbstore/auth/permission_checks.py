"""Permission checks: what a user may do, answered from the cache where possible."""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce

from mlflow_dynamodbstore.auth.context import AuthContext
from mlflow_dynamodbstore.auth.reader import AuthReader
from mlflow_dynamodbstore.auth.records import ALL
from mlflow_dynamodbstore.mlflow_compat.auth import (
    DENY,
    MANAGE,
    RESOURCE_TYPE_WORKSPACE,
    Permission,
    RoleGrantRow,
    check_denials_hold,
    get_permission,
    max_permission,
    validate_resource_type,
)
from mlflow_dynamodbstore.table.values import Item


class PermissionChecks:
    """Answers what a user may do."""

    def __init__(self, context: AuthContext, reader: AuthReader) -> None:
        self.answers = context.answers
        self.reader = reader

    def get_role_permission_for_resource(
        self, user_id: int, resource_type: str, resource_id: str, workspace: str
    ) -> Permission | None:
        rows = self._rows(user_id, workspace, {resource_type, RESOURCE_TYPE_WORKSPACE})
        wide = [r.permission for r in rows if _is_workspace_wide(r)]
        is_admin = MANAGE.name in wide
        if resource_type != RESOURCE_TYPE_WORKSPACE:
            # Being a member of a workspace grants nothing on its resources.
            wide = [MANAGE.name] if is_admin else []
        exact = [
            row.permission
            for row in rows
            if row.resource_type == resource_type
            and not _is_workspace_wide(row)
            and row.resource_pattern in (ALL, resource_id)
        ]
        if DENY.name in exact and not is_admin:
            check_denials_hold()
            return DENY
        return best_permission([*wide, *(name for name in exact if name != DENY.name)])

    def is_workspace_admin(self, user_id: int, workspace: str) -> bool:
        return workspace in self._administered(user_id)

    def list_grants(
        self, user_id: int, workspace: str, resource_types: Collection[str]
    ) -> list[RoleGrantRow]:
        types = frozenset(resource_types)
        for resource_type in types:
            validate_resource_type(resource_type)
        rows = self.answers.answer(
            ("grants", user_id, workspace, types),
            lambda: tuple(self._rows(user_id, workspace, types | {RESOURCE_TYPE_WORKSPACE})),
        )
        return list(rows)

    def list_role_grants_for_user_in_workspace(
        self, user_id: int, workspace: str, resource_type: str
    ) -> list[tuple[str, str]]:
        rows = self.list_grants(user_id, workspace, [resource_type])
        if any(row.permission == DENY.name for row in rows):
            check_denials_hold()
        return [
            (row.resource_pattern, row.permission)
            for row in rows
            if row.resource_type == resource_type or row.resource_pattern == ALL
        ]

    def list_workspace_admin_workspaces(self, user_id: int) -> set[str]:
        return set(self._administered(user_id))

    def is_workspace_admin_of_any_of_users_workspaces(
        self, admin_user_id: int, target_user_id: int
    ) -> bool:
        administered = self._administered(admin_user_id)
        return bool(administered) and any(
            role.workspace in administered for role in self.reader.cached_roles_of(target_user_id)
        )

    def _rows(self, user_id: int, workspace: str, types: Collection[str]) -> list[RoleGrantRow]:
        # A user's own grants are read type by type, those of a role all at once.
        found = [
            grant
            for role in self.reader.cached_roles_of(user_id, workspace)
            for resource_type in (types if role.owner is not None else (None,))
            for grant in self.reader.grants_of(role, resource_type)
        ]
        return [_row(grant) for grant in found if grant["resource_type"] in types]

    def _administered(self, user_id: int) -> frozenset[str]:
        """The workspaces that a user manages."""
        return self.answers.answer(
            ("administered", user_id),
            lambda: frozenset(
                role.workspace
                for role in self.reader.cached_roles_of(user_id)
                if any(
                    _is_workspace_wide(_row(grant)) and grant["permission"] == MANAGE.name
                    for grant in self.reader.grants_of(role, RESOURCE_TYPE_WORKSPACE)
                )
            ),
        )


def best_permission(names: Collection[str]) -> Permission | None:
    """The permission that allows most; None if there is none."""
    if not names:
        return None
    best: Permission = get_permission(reduce(max_permission, names))
    return best


def _row(grant: Item) -> RoleGrantRow:
    return RoleGrantRow(
        str(grant["resource_type"]), str(grant["resource_pattern"]), str(grant["permission"])
    )


def _is_workspace_wide(row: RoleGrantRow) -> bool:
    return row.resource_type == RESOURCE_TYPE_WORKSPACE and row.resource_pattern == ALL
