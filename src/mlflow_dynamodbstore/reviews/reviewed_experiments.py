"""Finding the experiments that label schemas and review queues lie in."""

from __future__ import annotations

from mlflow.entities.lifecycle_stage import LifecycleStage

from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import reviews as review_keys
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.table.values import Item

LABEL_SCHEMA_PREFIX, QUEUE_PREFIX = "ls-", "rq-"
ID_PREFIXES = (LABEL_SCHEMA_PREFIX, QUEUE_PREFIX)


def locator(entity_id: str, experiment_id: str) -> Item:
    """The item that tells the experiment of an entity whose id does not."""
    key = review_keys.review_locator_key(entity_id)
    return {"PK": key.pk, "SK": key.sk, "experiment_id": experiment_id}


class ReviewedExperiments:
    """The experiments of label schemas and review queues."""

    def __init__(self, experiment_lookup: ExperimentLookup) -> None:
        self.experiment_lookup = experiment_lookup

    def active_id(self, experiment_id: str | int) -> str:
        """The id of an active experiment; MLflow's error for any other."""
        return experiment_id_of(self.experiment_lookup.get(experiment_id, {LifecycleStage.ACTIVE}))

    def id_in(self, entity_id: str, prefix: str) -> str | None:
        """The experiment of an entity, if the active workspace has it.

        Our own ids name it; a locator tells that of an imported entity.
        """
        found = ids.experiment_of(entity_id.removeprefix(prefix)) or self._located(entity_id)
        return found if found and self.experiment_lookup.is_in_workspace(found) else None

    def _located(self, entity_id: str) -> str | None:
        item = self.experiment_lookup.table.get(review_keys.review_locator_key(entity_id))
        return None if item is None else str(item["experiment_id"])
