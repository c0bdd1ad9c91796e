"""Finding the experiments that label schemas and review queues lie in."""

from __future__ import annotations

from mlflow.entities.lifecycle_stage import LifecycleStage

from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.places import experiment_id_of


class ReviewedExperiments:
    """The experiments of label schemas and review queues."""

    def __init__(self, experiment_lookup: ExperimentLookup) -> None:
        self.experiment_lookup = experiment_lookup

    def active_id(self, experiment_id: str | int) -> str:
        """The id of an active experiment; MLflow's error for any other."""
        return experiment_id_of(self.experiment_lookup.get(experiment_id, {LifecycleStage.ACTIVE}))

    def id_in(self, entity_id: str, prefix: str) -> str | None:
        """The experiment that the id of an entity names, if the active workspace has it."""
        found = ids.experiment_of(entity_id.removeprefix(prefix))
        return found if found and self.experiment_lookup.is_in_workspace(found) else None
