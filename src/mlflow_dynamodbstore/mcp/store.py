"""MLflow's registry of MCP servers, as part of the tracking store."""

from __future__ import annotations

from mlflow_dynamodbstore.mcp.endpoints import AccessEndpoints
from mlflow_dynamodbstore.mcp.labels import Labels
from mlflow_dynamodbstore.mcp.search import McpSearch
from mlflow_dynamodbstore.mcp.versions import ServerVersions


class McpRegistry(McpSearch, ServerVersions, Labels, AccessEndpoints):
    """Gathers the entity modules; ``create_mcp_server`` is in ``servers.py``, and so on."""
