"""The auth store that MLflow's auth app sees."""

from __future__ import annotations

from mlflow_dynamodbstore.auth.experiment_permissions import ExperimentPermissions
from mlflow_dynamodbstore.auth.gateway_endpoint_permissions import GatewayEndpointPermissions
from mlflow_dynamodbstore.auth.gateway_model_definition_permissions import (
    GatewayModelDefinitionPermissions,
)
from mlflow_dynamodbstore.auth.gateway_secret_permissions import GatewaySecretPermissions
from mlflow_dynamodbstore.auth.mcp_server_permissions import MCPServerPermissions
from mlflow_dynamodbstore.auth.model_permissions import ModelPermissions
from mlflow_dynamodbstore.auth.resolution import Resolution
from mlflow_dynamodbstore.auth.role_permissions import RolePermissions
from mlflow_dynamodbstore.auth.roles import Roles
from mlflow_dynamodbstore.auth.scorer_permissions import ScorerPermissions
from mlflow_dynamodbstore.auth.users import Users
from mlflow_dynamodbstore.auth.workspace_permissions import WorkspacePermissions
from mlflow_dynamodbstore.shared.mlflow_errors import translates_errors
from mlflow_dynamodbstore.table.table import Table


@translates_errors
class DynamoDBAuthStore(
    Users,
    Roles,
    RolePermissions,
    Resolution,
    WorkspacePermissions,
    ExperimentPermissions,
    ModelPermissions,
    ScorerPermissions,
    GatewaySecretPermissions,
    GatewayEndpointPermissions,
    GatewayModelDefinitionPermissions,
    MCPServerPermissions,
):
    """Users, roles and grants on one DynamoDB table, or on a file of the embedded engine."""

    def __init__(self, auth_uri: str, *, table: Table | None = None):
        self._open(auth_uri, table)

    def init_db(self, db_uri: str, read_db_uri: str | None = None) -> None:
        """Nothing: MLflow's app opens a database here, and this store is open already."""
        del db_uri, read_db_uri
