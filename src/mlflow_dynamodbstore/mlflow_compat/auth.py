"""Entities and permissions of MLflow's auth app. Importing this module imports the app."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED
from mlflow.version import VERSION

from mlflow_dynamodbstore.mlflow_compat.names import private, unavailable

ENTITIES = "mlflow.server.auth.entities"
PERMISSIONS = "mlflow.server.auth.permissions"
STORE = "mlflow.server.auth.sqlalchemy_store"
USERS = "Users and permissions"


@dataclass(frozen=True)
class _Denial:
    """A permission that MLflow has from 3.17 on."""

    name: str = "DENY"
    can_read: bool = False
    can_use: bool = False
    can_update: bool = False
    can_delete: bool = False
    can_manage: bool = False


class _GrantRow(NamedTuple):
    resource_type: str
    resource_pattern: str
    permission: str


if TYPE_CHECKING:
    from mlflow.server.auth.entities import (
        ExperimentPermission,
        GatewayEndpointPermission,
        GatewayModelDefinitionPermission,
        GatewaySecretPermission,
        MCPServerPermission,
        RegisteredModelPermission,
        Role,
        RolePermission,
        ScorerPermission,
        User,
        UserRoleAssignment,
        WorkspacePermission,
    )
    from mlflow.server.auth.permissions import DENY, MANAGE, Permission
    from mlflow.server.auth.sqlalchemy_store import RoleGrantRow
else:
    ExperimentPermission = private(ENTITIES, "ExperimentPermission", unavailable(USERS))
    GatewayEndpointPermission = private(ENTITIES, "GatewayEndpointPermission", unavailable(USERS))
    GatewayModelDefinitionPermission = private(
        ENTITIES, "GatewayModelDefinitionPermission", unavailable(USERS)
    )
    GatewaySecretPermission = private(ENTITIES, "GatewaySecretPermission", unavailable(USERS))
    MCPServerPermission = private(ENTITIES, "MCPServerPermission", unavailable(USERS))
    RegisteredModelPermission = private(ENTITIES, "RegisteredModelPermission", unavailable(USERS))
    Role = private(ENTITIES, "Role", unavailable(USERS))
    RolePermission = private(ENTITIES, "RolePermission", unavailable(USERS))
    ScorerPermission = private(ENTITIES, "ScorerPermission", unavailable(USERS))
    User = private(ENTITIES, "User", unavailable(USERS))
    UserRoleAssignment = private(ENTITIES, "UserRoleAssignment", unavailable(USERS))
    WorkspacePermission = private(ENTITIES, "WorkspacePermission", unavailable(USERS))
    Permission = private(PERMISSIONS, "Permission", unavailable(USERS))
    MANAGE = private(PERMISSIONS, "MANAGE", unavailable(USERS))
    DENY = private(PERMISSIONS, "DENY", _Denial())
    RoleGrantRow = private(STORE, "RoleGrantRow", _GrantRow)

RESOURCE_TYPE_EXPERIMENT = private(PERMISSIONS, "RESOURCE_TYPE_EXPERIMENT", "experiment")
RESOURCE_TYPE_GATEWAY_ENDPOINT = private(
    PERMISSIONS, "RESOURCE_TYPE_GATEWAY_ENDPOINT", "gateway_endpoint"
)
RESOURCE_TYPE_GATEWAY_MODEL_DEFINITION = private(
    PERMISSIONS, "RESOURCE_TYPE_GATEWAY_MODEL_DEFINITION", "gateway_model_definition"
)
RESOURCE_TYPE_GATEWAY_SECRET = private(
    PERMISSIONS, "RESOURCE_TYPE_GATEWAY_SECRET", "gateway_secret"
)
RESOURCE_TYPE_MCP_SERVER = private(PERMISSIONS, "RESOURCE_TYPE_MCP_SERVER", "mcp_server")
RESOURCE_TYPE_REGISTERED_MODEL = private(
    PERMISSIONS, "RESOURCE_TYPE_REGISTERED_MODEL", "registered_model"
)
RESOURCE_TYPE_SCORER = private(PERMISSIONS, "RESOURCE_TYPE_SCORER", "scorer")
RESOURCE_TYPE_WORKSPACE = private(PERMISSIONS, "RESOURCE_TYPE_WORKSPACE", "workspace")

# Without MLflow's checks nothing can be granted: a wrong grant would be worse.
validate_resource_type: Any = private(
    PERMISSIONS, "_validate_resource_type", unavailable("Granting permissions")
)
validate_permission_for_resource_type: Any = private(
    PERMISSIONS, "_validate_permission_for_resource_type", unavailable("Granting permissions")
)
get_permission: Any = private(PERMISSIONS, "get_permission", unavailable(USERS))
max_permission: Any = private(PERMISSIONS, "max_permission", unavailable(USERS))


def _pattern(resource_pattern: str, resource_type: str) -> None:
    """As MLflow up to 3.16 checks a pattern: only a workspace takes no id."""
    validate_resource_type(resource_type)
    if resource_type == RESOURCE_TYPE_WORKSPACE and resource_pattern != "*":
        raise MlflowException.invalid_parameter_value(
            f"resource_type='{resource_type}' requires resource_pattern='*'. "
            f"Got resource_pattern='{resource_pattern}'."
        )


validate_resource_pattern = private(PERMISSIONS, "_validate_resource_pattern", _pattern)

__all__ = [
    "DENY",
    "MANAGE",
    "RESOURCE_TYPE_EXPERIMENT",
    "RESOURCE_TYPE_GATEWAY_ENDPOINT",
    "RESOURCE_TYPE_GATEWAY_MODEL_DEFINITION",
    "RESOURCE_TYPE_GATEWAY_SECRET",
    "RESOURCE_TYPE_MCP_SERVER",
    "RESOURCE_TYPE_REGISTERED_MODEL",
    "RESOURCE_TYPE_SCORER",
    "RESOURCE_TYPE_WORKSPACE",
    "ExperimentPermission",
    "GatewayEndpointPermission",
    "GatewayModelDefinitionPermission",
    "GatewaySecretPermission",
    "MCPServerPermission",
    "Permission",
    "RegisteredModelPermission",
    "Role",
    "RoleGrantRow",
    "RolePermission",
    "ScorerPermission",
    "User",
    "UserRoleAssignment",
    "WorkspacePermission",
    "check_denials_hold",
    "get_permission",
    "max_permission",
    "validate_permission_for_resource_type",
    "validate_resource_pattern",
    "validate_resource_type",
]


def check_denials_hold() -> None:
    """Raise in a release that does not know DENY: its app would take it for the default."""
    if isinstance(DENY, _Denial):
        raise MlflowException(
            f"MLflow {VERSION} does not know the permission DENY of this user; use 3.17 or newer.",
            PERMISSION_DENIED,
        )
