"""The grants of roles."""

from __future__ import annotations

from mlflow_dynamodbstore.auth.checks import refuse_missing
from mlflow_dynamodbstore.auth.grant_writer import GrantExistsError, GrantWriter
from mlflow_dynamodbstore.auth.items import GRANTS_OF_A_ROLE
from mlflow_dynamodbstore.auth.reader import AuthReader
from mlflow_dynamodbstore.auth.records import permission_entity
from mlflow_dynamodbstore.mlflow_compat.auth import (
    RolePermission,
    validate_permission_for_resource_type,
    validate_resource_pattern,
)
from mlflow_dynamodbstore.shared.refusals import already_exists
from mlflow_dynamodbstore.table.values import Item


class RolePermissions:
    """Adding, reading, changing and removing the grants of roles."""

    def __init__(self, reader: AuthReader, grants: GrantWriter) -> None:
        self.reader = reader
        self.grants = grants

    def add_role_permission(
        self, role_id: int, resource_type: str, resource_pattern: str, permission: str
    ) -> RolePermission:
        validate_permission_for_resource_type(permission, resource_type)
        validate_resource_pattern(resource_pattern, resource_type)
        role = self.reader.existing_role(role_id)
        try:
            grant = self.grants.add_grant(role, resource_type, resource_pattern, permission)
        except GrantExistsError as error:
            raise already_exists(
                f"Role permission (role_id={role_id}, resource_type={resource_type}, "
                f"resource_pattern={resource_pattern}) already exists."
            ) from error
        return permission_entity(grant)

    def get_role_permission(self, role_permission_id: int) -> RolePermission:
        return permission_entity(self._grant_by_number(role_permission_id))

    def remove_role_permission(self, role_permission_id: int) -> None:
        if not self.grants.remove_grant(self._grant_by_number(role_permission_id)):
            _no_such_grant(role_permission_id)

    def list_role_permissions(self, role_id: int) -> list[RolePermission]:
        grants = self.reader.grants_of(self.reader.existing_role(role_id))
        return [permission_entity(grant) for grant in grants]

    def update_role_permission(self, role_permission_id: int, permission: str) -> RolePermission:
        grant = self._grant_by_number(role_permission_id)
        validate_permission_for_resource_type(permission, str(grant["resource_type"]))
        changed = self.grants.set_permission(grant, permission)
        return permission_entity(changed or _no_such_grant(role_permission_id))

    def _grant_by_number(self, number: int) -> Item:
        role_id = number // GRANTS_OF_A_ROLE if isinstance(number, int) else 0
        role = self.reader.find_role(role_id)
        grants = [] if role is None else self.reader.grants_of(role)
        found = next((grant for grant in grants if grant["id"] == number), None)
        return found or _no_such_grant(number)


def _no_such_grant(number: int) -> Item:
    refuse_missing(f"Role permission with id={number} not found")
