"""Workspaces: which one a call works in, and who provides them."""

from __future__ import annotations

from typing import Any

from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES
from mlflow.exceptions import MlflowException
from mlflow.utils.workspace_context import get_request_workspace
from mlflow.utils.workspace_utils import DEFAULT_WORKSPACE_NAME

from mlflow_dynamodbstore.mlflow_compat.names import private, unavailable


def _active_workspace() -> str:
    enabled = MLFLOW_ENABLE_WORKSPACES.get()
    workspace: str | None = get_request_workspace() if enabled else DEFAULT_WORKSPACE_NAME
    if not workspace:
        raise MlflowException.invalid_parameter_value(
            "Active workspace is required. Configure a default workspace or call "
            "mlflow.set_workspace() before interacting with the store."
        )
    return workspace


get_active_workspace = private(
    "mlflow.store.workspace_aware_mixin",
    "WorkspaceAwareMixin._get_active_workspace",
    _active_workspace,
)
get_workspace_store: Any = private(
    "mlflow.tracking._workspace.registry",
    "get_workspace_store",
    unavailable("Workspaces that another store provides"),
)
