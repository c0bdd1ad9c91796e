"""Users' permissions for registered models."""

from __future__ import annotations

from mlflow.server.auth.entities import RegisteredModelPermission
from mlflow.server.auth.permissions import RESOURCE_TYPE_REGISTERED_MODEL

from mlflow_dynamodbstore.auth.records import UserRecord
from mlflow_dynamodbstore.auth.resource_permissions import ResourcePermissions, Subject
from mlflow_dynamodbstore.table.values import Item


class ModelPermissions(ResourcePermissions):
    """Permissions for registered models."""

    def create_registered_model_permission(
        self, name: str, username: str, permission: str
    ) -> RegisteredModelPermission:
        return self._create_permission(self._model(name, username), username, permission)

    def get_registered_model_permission(
        self, name: str, username: str
    ) -> RegisteredModelPermission:
        return self._get_permission(self._model(name, username), username)

    def list_registered_model_permissions(self, username: str) -> list[RegisteredModelPermission]:
        user, grants = self._permissions(username, RESOURCE_TYPE_REGISTERED_MODEL)
        return [_entity(user, grant) for grant in grants]

    def list_all_registered_model_permissions(
        self, username: str
    ) -> list[RegisteredModelPermission]:
        user, grants = self._permissions(username, RESOURCE_TYPE_REGISTERED_MODEL, everywhere=True)
        return [_entity(user, grant) for grant in grants]

    def update_registered_model_permission(
        self, name: str, username: str, permission: str
    ) -> RegisteredModelPermission:
        return self._update_permission(self._model(name, username), username, permission)

    def delete_registered_model_permission(self, name: str, username: str) -> None:
        self._delete_permission(self._model(name, username), username)

    def _model(self, name: str, username: str) -> Subject[RegisteredModelPermission]:
        which = (
            f"Registered model permission with workspace={self._active_workspace()}, "
            f"name={name} and username={username}"
        )
        return Subject(
            RESOURCE_TYPE_REGISTERED_MODEL,
            name,
            f"{which} already exists.",
            f"{which} not found",
            _entity,
        )


def _entity(user: UserRecord, grant: Item) -> RegisteredModelPermission:
    return RegisteredModelPermission(
        name=grant["resource_pattern"],
        user_id=user.id,
        permission=grant["permission"],
        workspace=grant["workspace"],
    )
