"""Users' permissions for scorers."""

from __future__ import annotations

from urllib.parse import quote, unquote

from mlflow.server.auth.entities import ScorerPermission
from mlflow.server.auth.permissions import RESOURCE_TYPE_SCORER

from mlflow_dynamodbstore.auth.records import UserRecord
from mlflow_dynamodbstore.auth.resource_permissions import ResourcePermissions, Subject
from mlflow_dynamodbstore.table.values import Item


class ScorerPermissions(ResourcePermissions):
    """Permissions for scorers."""

    @staticmethod
    def _scorer_pattern(experiment_id: str, scorer_name: str) -> str:
        """How grants name a scorer. MLflow's app calls this, too."""
        return f"{experiment_id}/{quote(scorer_name, safe='')}"

    def create_scorer_permission(
        self, experiment_id: str, scorer_name: str, username: str, permission: str
    ) -> ScorerPermission:
        subject = self._scorer(experiment_id, scorer_name, username)
        return self._create_permission(subject, username, permission)

    def get_scorer_permission(
        self, experiment_id: str, scorer_name: str, username: str
    ) -> ScorerPermission:
        return self._get_permission(self._scorer(experiment_id, scorer_name, username), username)

    def list_scorer_permissions(self, username: str) -> list[ScorerPermission]:
        user, grants = self._permissions(username, RESOURCE_TYPE_SCORER, everywhere=True)
        return [_entity(user, grant) for grant in grants]

    def update_scorer_permission(
        self, experiment_id: str, scorer_name: str, username: str, permission: str
    ) -> ScorerPermission:
        subject = self._scorer(experiment_id, scorer_name, username)
        return self._update_permission(subject, username, permission)

    def delete_scorer_permission(self, experiment_id: str, scorer_name: str, username: str) -> None:
        self._delete_permission(self._scorer(experiment_id, scorer_name, username), username)

    def _scorer(
        self, experiment_id: str, scorer_name: str, username: str
    ) -> Subject[ScorerPermission]:
        which = f"experiment_id={experiment_id}, scorer_name={scorer_name}"
        return Subject(
            RESOURCE_TYPE_SCORER,
            self._scorer_pattern(experiment_id, scorer_name),
            f"Scorer permission ({which}, username={username}) already exists.",
            f"Scorer permission with {which}, and username={username} not found",
            _entity,
        )


def _entity(user: UserRecord, grant: Item) -> ScorerPermission:
    experiment_id, _, name = str(grant["resource_pattern"]).partition("/")
    return ScorerPermission(experiment_id, unquote(name), user.id, grant["permission"])
