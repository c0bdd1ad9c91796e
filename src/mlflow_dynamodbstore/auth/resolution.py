"""What a user may do: the questions that a check asks, answered from a moment's memory."""

from __future__ import annotations

from collections.abc import Collection

from mlflow.server.auth.permissions import (
    DENY,
    MANAGE,
    RESOURCE_TYPE_WORKSPACE,
    Permission,
    _validate_resource_type,
    get_permission,
    max_permission,
)
from mlflow.server.auth.sqlalchemy_store import RoleGrantRow

from mlflow_dynamodbstore.auth.assignments import Assignments
from mlflow_dynamodbstore.table.values import Item

ALL = "*"


class Resolution(Assignments):
    """Permission checks."""

    def list_grants(
        self, user_id: int, workspace: str, resource_types: Collection[str]
    ) -> list[RoleGrantRow]:
        types = frozenset(resource_types)
        for resource_type in types:
            _validate_resource_type(resource_type)
        rows = self.recent.answer(
            ("grants", user_id, workspace, types),
            lambda: tuple(self._rows(user_id, workspace, types | {RESOURCE_TYPE_WORKSPACE})),
        )
        return list(rows)

    def list_role_grants_for_user_in_workspace(
        self, user_id: int, workspace: str, resource_type: str
    ) -> list[tuple[str, str]]:
        return [
            (row.resource_pattern, row.permission)
            for row in self.list_grants(user_id, workspace, [resource_type])
            if row.resource_type == resource_type or row.resource_pattern == ALL
        ]

    def get_role_permission_for_resource(
        self, user_id: int, resource_type: str, resource_id: str, workspace: str
    ) -> Permission | None:
        rows = self._rows(user_id, workspace, {resource_type, RESOURCE_TYPE_WORKSPACE})
        wide = [r.permission for r in rows if _is_workspace_wide(r)]
        is_admin = MANAGE.name in wide
        if resource_type != RESOURCE_TYPE_WORKSPACE:
            wide = [MANAGE.name] if is_admin else []  # a mere member is not granted each thing
        exact = [
            row.permission
            for row in rows
            if row.resource_type == resource_type
            and not _is_workspace_wide(row)
            and row.resource_pattern in (ALL, resource_id)
        ]
        if DENY.name in exact and not is_admin:
            return DENY
        allowed = [*wide, *(name for name in exact if name != DENY.name)]
        if not allowed:
            return None
        best = allowed[0]
        for name in allowed[1:]:
            best = max_permission(best, name)
        return get_permission(best)

    def is_workspace_admin(self, user_id: int, workspace: str) -> bool:
        return workspace in self._administered(user_id)

    def list_workspace_admin_workspaces(self, user_id: int) -> set[str]:
        return set(self._administered(user_id))

    def is_workspace_admin_of_any_of_users_workspaces(
        self, admin_user_id: int, target_user_id: int
    ) -> bool:
        administered = self._administered(admin_user_id)
        return bool(administered) and not administered.isdisjoint(
            self.list_user_present_workspaces(target_user_id)
        )

    def _rows(self, user_id: int, workspace: str, types: Collection[str]) -> list[RoleGrantRow]:
        roles = self._roles_held(user_id, workspace)
        # One read for each type where grants are kept by type, one for all where they are not.
        found = [
            grant
            for role in roles
            for kind in (types if role.owner is not None else (None,))
            for grant in self._grants_of(role, kind)
        ]
        return [_row(grant) for grant in found if grant["resource_type"] in types]

    def _administered(self, user_id: int) -> frozenset[str]:
        return self.recent.answer(
            ("administered", user_id),
            lambda: frozenset(
                role.workspace
                for role in self._roles_held(user_id)
                if any(
                    _is_workspace_wide(_row(grant)) and grant["permission"] == MANAGE.name
                    for grant in self._grants_of(role, RESOURCE_TYPE_WORKSPACE)
                )
            ),
        )


def _row(grant: Item) -> RoleGrantRow:
    return RoleGrantRow(
        str(grant["resource_type"]), str(grant["resource_pattern"]), str(grant["permission"])
    )


def _is_workspace_wide(row: RoleGrantRow) -> bool:
    return row.resource_type == RESOURCE_TYPE_WORKSPACE and row.resource_pattern == ALL
