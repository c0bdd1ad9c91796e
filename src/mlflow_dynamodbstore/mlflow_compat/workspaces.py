"""Workspaces: which one a call works in, and who provides them."""

from __future__ import annotations

from typing import Any

from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES
from mlflow.exceptions import MlflowException
from mlflow.utils.workspace_context import get_request_workspace
from mlflow.utils.workspace_utils import DEFAULT_WORKSPACE_NAME

from mlflow_dynamodbstore.mlflow_compat.names import private, private_later, unavailable


def _active_workspace() -> str:
    workspace = get_request_workspace() if MLFLOW_ENABLE_WORKSPACES.get() else None
    if workspace is None and MLFLOW_ENABLE_WORKSPACES.get():
        raise MlflowException.invalid_parameter_value(
            "Active workspace is required. Configure a default workspace or call "
            "mlflow.set_workspace() before interacting with the store."
        )
    return workspace or DEFAULT_WORKSPACE_NAME


get_active_workspace = private(
    "mlflow.store.workspace_aware_mixin",
    "WorkspaceAwareMixin._get_active_workspace",
    _active_workspace,
)
# Its module imports ours: MLflow loads our store of workspaces from there.
get_workspace_store: Any = private_later(
    "mlflow.tracking._workspace.registry",
    "get_workspace_store",
    unavailable("Workspaces that another store provides"),
)
