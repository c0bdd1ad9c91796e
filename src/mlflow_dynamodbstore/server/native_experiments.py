"""Native routes: experiments by id and by name."""

from __future__ import annotations

from typing import Any

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST

from mlflow_dynamodbstore.server import answers
from mlflow_dynamodbstore.server.answers import Text, to_json
from mlflow_dynamodbstore.server.request_reading import Request, required_argument

_ID = frozenset({"experiment_id"})
_NAME = frozenset({"experiment_name"})


def get_experiment(store: Any, request: Request) -> Text:
    """``experiments/get``."""
    experiment_id = required_argument(request.arguments(_ID), "experiment_id")
    found = store.get_experiment(experiment_id)
    return to_json({"experiment": answers.experiment(found)})


def get_experiment_by_name(store: Any, request: Request) -> Text:
    """``experiments/get-by-name``."""
    name = required_argument(request.arguments(_NAME), "experiment_name")
    found = store.get_experiment_by_name(name)
    if found is None:
        raise MlflowException(
            f"Could not find experiment with name '{name}'", error_code=RESOURCE_DOES_NOT_EXIST
        )
    return to_json({"experiment": answers.experiment(found)})
