"""Users' permissions for gateway secrets."""

from __future__ import annotations

from mlflow.server.auth.entities import GatewaySecretPermission
from mlflow.server.auth.permissions import RESOURCE_TYPE_GATEWAY_SECRET

from mlflow_dynamodbstore.auth.records import UserRecord
from mlflow_dynamodbstore.auth.resource_permissions import ResourcePermissions, Subject
from mlflow_dynamodbstore.table.values import Item


class GatewaySecretPermissions(ResourcePermissions):
    """Permissions for gateway secrets."""

    def create_gateway_secret_permission(
        self, secret_id: str, username: str, permission: str
    ) -> GatewaySecretPermission:
        return self._create_permission(_subject(secret_id, username), username, permission)

    def get_gateway_secret_permission(
        self, secret_id: str, username: str
    ) -> GatewaySecretPermission:
        return self._get_permission(_subject(secret_id, username), username)

    def list_gateway_secret_permissions(self, username: str) -> list[GatewaySecretPermission]:
        user, grants = self._permissions(username, RESOURCE_TYPE_GATEWAY_SECRET)
        return [_entity(user, grant) for grant in grants]

    def update_gateway_secret_permission(
        self, secret_id: str, username: str, permission: str
    ) -> GatewaySecretPermission:
        return self._update_permission(_subject(secret_id, username), username, permission)

    def delete_gateway_secret_permission(self, secret_id: str, username: str) -> None:
        self._delete_permission(_subject(secret_id, username), username)


def _subject(secret_id: str, username: str) -> Subject[GatewaySecretPermission]:
    return Subject.named(
        RESOURCE_TYPE_GATEWAY_SECRET, "Gateway secret", "secret_id", secret_id, username, _entity
    )


def _entity(user: UserRecord, grant: Item) -> GatewaySecretPermission:
    return GatewaySecretPermission(grant["resource_pattern"], user.id, grant["permission"])
