"""Users' permissions for gateway endpoints."""

from __future__ import annotations

from mlflow.server.auth.entities import GatewayEndpointPermission
from mlflow.server.auth.permissions import RESOURCE_TYPE_GATEWAY_ENDPOINT

from mlflow_dynamodbstore.auth.records import UserRecord
from mlflow_dynamodbstore.auth.resource_permissions import ResourcePermissions, Subject
from mlflow_dynamodbstore.table.values import Item


class GatewayEndpointPermissions(ResourcePermissions):
    """Permissions for gateway endpoints."""

    def create_gateway_endpoint_permission(
        self, endpoint_id: str, username: str, permission: str
    ) -> GatewayEndpointPermission:
        return self._create_permission(_subject(endpoint_id, username), username, permission)

    def get_gateway_endpoint_permission(
        self, endpoint_id: str, username: str
    ) -> GatewayEndpointPermission:
        return self._get_permission(_subject(endpoint_id, username), username)

    def list_gateway_endpoint_permissions(self, username: str) -> list[GatewayEndpointPermission]:
        user, grants = self._permissions(username, RESOURCE_TYPE_GATEWAY_ENDPOINT)
        return [_entity(user, grant) for grant in grants]

    def update_gateway_endpoint_permission(
        self, endpoint_id: str, username: str, permission: str
    ) -> GatewayEndpointPermission:
        return self._update_permission(_subject(endpoint_id, username), username, permission)

    def delete_gateway_endpoint_permission(self, endpoint_id: str, username: str) -> None:
        self._delete_permission(_subject(endpoint_id, username), username)


def _subject(endpoint_id: str, username: str) -> Subject[GatewayEndpointPermission]:
    return Subject.named(
        RESOURCE_TYPE_GATEWAY_ENDPOINT,
        "Gateway endpoint",
        "endpoint_id",
        endpoint_id,
        username,
        _entity,
    )


def _entity(user: UserRecord, grant: Item) -> GatewayEndpointPermission:
    return GatewayEndpointPermission(grant["resource_pattern"], user.id, grant["permission"])
