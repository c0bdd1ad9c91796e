"""The conditions that writes are made on, each with a name."""

from __future__ import annotations

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.entities.lifecycle_stage import LifecycleStage

from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE

ABSENT = Attr(MLFLOW_TABLE.pk).not_exists()
"""There is no item at this key."""
PRESENT = Attr(MLFLOW_TABLE.pk).exists()
"""There is an item at this key."""
IS_ACTIVE = Attr("lifecycle").eq(LifecycleStage.ACTIVE)
"""The experiment or run at this key is active."""


def names_experiment(experiment_id: str) -> ConditionBase:
    """The guard or locator at this key names this experiment."""
    return Attr("experiment_id").eq(experiment_id)
