"""The errors of the registry, in MLflow's words."""

from __future__ import annotations

from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.shared.refusals import already_exists, invalid, not_found


def model_not_found(name: str) -> MlflowException:
    """There is no such model in the active workspace."""
    return not_found(f"Registered Model with name={name} not found")


def version_not_found(name: str, version: object) -> MlflowException:
    """The model has no such version, or does not exist itself."""
    return not_found(f"Model Version (name={name}, version={version}) not found")


def alias_not_found(alias: str) -> MlflowException:
    """The model has no such alias."""
    return invalid(f"Registered model alias {alias} not found.")


def name_taken(name: str) -> MlflowException:
    """A model cannot get a name that another one has."""
    return already_exists(f"Registered Model (name={name}) already exists.")
