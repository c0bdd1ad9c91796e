"""What roles allow, grant by grant."""

from __future__ import annotations

from mlflow.server.auth.entities import RolePermission
from mlflow.server.auth.permissions import (
    _validate_permission_for_resource_type,
    _validate_resource_pattern,
)

from mlflow_dynamodbstore.auth.base import already_exists, is_number, not_found
from mlflow_dynamodbstore.auth.granting import GRANTS_OF_A_ROLE, GrantExistsError, Granting
from mlflow_dynamodbstore.auth.records import permission_entity
from mlflow_dynamodbstore.table.values import Item


class RolePermissions(Granting):
    """Grants of roles."""

    def add_role_permission(
        self, role_id: int, resource_type: str, resource_pattern: str, permission: str
    ) -> RolePermission:
        _validate_permission_for_resource_type(permission, resource_type)
        _validate_resource_pattern(resource_pattern, resource_type)
        role = self._role(role_id)
        try:
            grant = self._add_grant(role, resource_type, resource_pattern, permission)
        except GrantExistsError as error:
            raise already_exists(
                f"Role permission (role_id={role_id}, resource_type={resource_type}, "
                f"resource_pattern={resource_pattern}) already exists."
            ) from error
        return permission_entity(grant)

    def get_role_permission(self, role_permission_id: int) -> RolePermission:
        return permission_entity(self._grant_by_number(role_permission_id))

    def remove_role_permission(self, role_permission_id: int) -> None:
        if not self._remove_grant(self._grant_by_number(role_permission_id)):
            self._no_such_grant(role_permission_id)

    def list_role_permissions(self, role_id: int) -> list[RolePermission]:
        return [permission_entity(grant) for grant in self._grants_of(self._role(role_id))]

    def update_role_permission(self, role_permission_id: int, permission: str) -> RolePermission:
        grant = self._grant_by_number(role_permission_id)
        _validate_permission_for_resource_type(permission, str(grant["resource_type"]))
        changed = self._set_permission(grant, permission)
        return permission_entity(changed or self._no_such_grant(role_permission_id))

    def _grant_by_number(self, number: int) -> Item:
        role_id = number // GRANTS_OF_A_ROLE if isinstance(number, int) else None
        role = self._find_role(role_id) if role_id is not None and is_number(role_id) else None
        grants = [] if role is None else self._grants_of(role)
        found = next((grant for grant in grants if grant["id"] == number), None)
        return found or self._no_such_grant(number)

    @staticmethod
    def _no_such_grant(number: int) -> Item:
        not_found(f"Role permission with id={number} not found")
