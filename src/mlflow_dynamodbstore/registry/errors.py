"""The errors of the registry, in MLflow's words."""

from __future__ import annotations

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import (
    INVALID_PARAMETER_VALUE,
    RESOURCE_ALREADY_EXISTS,
    RESOURCE_DOES_NOT_EXIST,
)


def model_not_found(name: str) -> MlflowException:
    """There is no such model in the active workspace."""
    return MlflowException(f"Registered Model with name={name} not found", RESOURCE_DOES_NOT_EXIST)


def version_not_found(name: str, version: object) -> MlflowException:
    """The model has no such version, or does not exist itself."""
    return MlflowException(
        f"Model Version (name={name}, version={version}) not found", RESOURCE_DOES_NOT_EXIST
    )


def alias_not_found(alias: str) -> MlflowException:
    """The model has no such alias."""
    return MlflowException(f"Registered model alias {alias} not found.", INVALID_PARAMETER_VALUE)


def name_taken(name: str) -> MlflowException:
    """A model cannot get a name that another one has."""
    return MlflowException(
        f"Registered Model (name={name}) already exists.", RESOURCE_ALREADY_EXISTS
    )
