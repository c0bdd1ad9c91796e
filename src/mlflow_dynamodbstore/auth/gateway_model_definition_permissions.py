"""Users' permissions for the gateway's model definitions."""

from __future__ import annotations

from mlflow.server.auth.entities import GatewayModelDefinitionPermission
from mlflow.server.auth.permissions import RESOURCE_TYPE_GATEWAY_MODEL_DEFINITION

from mlflow_dynamodbstore.auth.records import UserRecord
from mlflow_dynamodbstore.auth.resource_permissions import ResourcePermissions, Subject
from mlflow_dynamodbstore.table.values import Item


class GatewayModelDefinitionPermissions(ResourcePermissions):
    """Permissions for the gateway's model definitions."""

    def create_gateway_model_definition_permission(
        self, model_definition_id: str, username: str, permission: str
    ) -> GatewayModelDefinitionPermission:
        return self._create_permission(
            _subject(model_definition_id, username), username, permission
        )

    def get_gateway_model_definition_permission(
        self, model_definition_id: str, username: str
    ) -> GatewayModelDefinitionPermission:
        return self._get_permission(_subject(model_definition_id, username), username)

    def list_gateway_model_definition_permissions(
        self, username: str
    ) -> list[GatewayModelDefinitionPermission]:
        user, grants = self._permissions(username, RESOURCE_TYPE_GATEWAY_MODEL_DEFINITION)
        return [_entity(user, grant) for grant in grants]

    def update_gateway_model_definition_permission(
        self, model_definition_id: str, username: str, permission: str
    ) -> GatewayModelDefinitionPermission:
        return self._update_permission(
            _subject(model_definition_id, username), username, permission
        )

    def delete_gateway_model_definition_permission(
        self, model_definition_id: str, username: str
    ) -> None:
        self._delete_permission(_subject(model_definition_id, username), username)


def _subject(model_definition_id: str, username: str) -> Subject[GatewayModelDefinitionPermission]:
    return Subject.named(
        RESOURCE_TYPE_GATEWAY_MODEL_DEFINITION,
        "Gateway model definition",
        "model_definition_id",
        model_definition_id,
        username,
        _entity,
    )


def _entity(user: UserRecord, grant: Item) -> GatewayModelDefinitionPermission:
    return GatewayModelDefinitionPermission(grant["resource_pattern"], user.id, grant["permission"])
