"""The errors with which a store refuses a call: ``raise invalid("...")``."""

from __future__ import annotations

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import (
    INVALID_PARAMETER_VALUE,
    INVALID_STATE,
    RESOURCE_ALREADY_EXISTS,
    RESOURCE_DOES_NOT_EXIST,
)


def invalid(message: str) -> MlflowException:
    """The error for an invalid argument."""
    return MlflowException(message, INVALID_PARAMETER_VALUE)


def not_found(message: str) -> MlflowException:
    """The error for an entity that does not exist in the active workspace."""
    return MlflowException(message, RESOURCE_DOES_NOT_EXIST)


def already_exists(message: str) -> MlflowException:
    """The error for an entity that exists already."""
    return MlflowException(message, RESOURCE_ALREADY_EXISTS)


def invalid_state(message: str) -> MlflowException:
    """The error for a call that the present state does not allow."""
    return MlflowException(message, INVALID_STATE)
