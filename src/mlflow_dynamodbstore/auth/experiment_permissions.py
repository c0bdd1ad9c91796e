"""Users' permissions for experiments."""

from __future__ import annotations

from mlflow.server.auth.entities import ExperimentPermission
from mlflow.server.auth.permissions import RESOURCE_TYPE_EXPERIMENT

from mlflow_dynamodbstore.auth.records import UserRecord
from mlflow_dynamodbstore.auth.resource_permissions import ResourcePermissions, Subject
from mlflow_dynamodbstore.table.values import Item


class ExperimentPermissions(ResourcePermissions):
    """Permissions for experiments."""

    def create_experiment_permission(
        self, experiment_id: str, username: str, permission: str
    ) -> ExperimentPermission:
        return self._create_permission(_subject(experiment_id, username), username, permission)

    def get_experiment_permission(self, experiment_id: str, username: str) -> ExperimentPermission:
        return self._get_permission(_subject(experiment_id, username), username)

    def list_experiment_permissions(self, username: str) -> list[ExperimentPermission]:
        user, grants = self._permissions(username, RESOURCE_TYPE_EXPERIMENT, everywhere=True)
        return [_entity(user, grant) for grant in grants]

    def update_experiment_permission(
        self, experiment_id: str, username: str, permission: str
    ) -> ExperimentPermission:
        return self._update_permission(_subject(experiment_id, username), username, permission)

    def delete_experiment_permission(self, experiment_id: str, username: str) -> None:
        self._delete_permission(_subject(experiment_id, username), username)


def _subject(experiment_id: str, username: str) -> Subject[ExperimentPermission]:
    return Subject.named(
        RESOURCE_TYPE_EXPERIMENT, "Experiment", "experiment_id", experiment_id, username, _entity
    )


def _entity(user: UserRecord, grant: Item) -> ExperimentPermission:
    return ExperimentPermission(grant["resource_pattern"], user.id, grant["permission"])
