"""What label schemas and review queues share: which experiment they are in."""

from __future__ import annotations

from mlflow.entities.lifecycle_stage import LifecycleStage

from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.places import experiment_id_of


class ReviewedExperiments:
    """The ground the modules about reviews stand on."""

    def __init__(self, experiment_lookup: ExperimentLookup) -> None:
        self.experiment_lookup = experiment_lookup

    def active_id(self, experiment_id: str | int) -> str:
        """The id of an active experiment; MLflow's error for any other."""
        return experiment_id_of(self.experiment_lookup.get(experiment_id, {LifecycleStage.ACTIVE}))

    def experiment_of(self, prefix: str, thing_id: str) -> str | None:
        """The experiment that an id of ours names, if the active workspace has it."""
        home = ids.experiment_of(thing_id.removeprefix(prefix))
        return home if home is not None and self.experiment_lookup.is_in_workspace(home) else None
