"""Where a model version comes from, and who made it."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING

from mlflow_dynamodbstore.mlflow_compat.names import private, unavailable

if TYPE_CHECKING:
    from mlflow.store.artifact.utils.models import _parse_model_uri as parse_model_uri
else:
    parse_model_uri = private(
        "mlflow.store.artifact.utils.models",
        "_parse_model_uri",
        unavailable("Registering a model from a models:/ URI"),
    )

__all__ = ["get_user", "parse_model_uri"]


def _user() -> str:
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return "unknown"


get_user = private("mlflow.tracking.context.default_context", "_get_user", _user)
