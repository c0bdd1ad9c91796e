"""The errors of a transfer that is not safe."""

from __future__ import annotations

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_STATE


class Refused(MlflowException):
    """A table or a file does not allow a safe transfer; nothing was lost."""

    def __init__(self, message: str):
        super().__init__(message, error_code=INVALID_STATE)


class BadArchive(Refused):
    """A file is not an archive, or not a complete one."""
