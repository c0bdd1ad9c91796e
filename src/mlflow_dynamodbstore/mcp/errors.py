"""The errors of the registry of MCP servers, in MLflow's words."""

from __future__ import annotations

from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.shared.refusals import already_exists, not_found


def server_not_found(name: str) -> MlflowException:
    """A server to read does not exist."""
    return not_found(f"MCP server '{name}' not found")


def no_server(name: str) -> MlflowException:
    """A server to change does not exist."""
    return not_found(f"MCPServer not found (name='{name}')")


def no_endpoint(endpoint_id: str) -> MlflowException:
    """An endpoint to change does not exist."""
    return not_found(f"MCPAccessEndpoint not found (id='{endpoint_id}')")


def endpoint_not_found(endpoint_id: str) -> MlflowException:
    """An endpoint to read does not exist, or does not resolve to a version."""
    return not_found(f"MCPAccessEndpoint {endpoint_id} not found")


def endpoint_of_other_server(endpoint_id: str, name: str) -> MlflowException:
    """An endpoint belongs to another server."""
    return not_found(f"MCPAccessEndpoint {endpoint_id} does not belong to server '{name}'")


def version_not_found(name: str, version: str) -> MlflowException:
    """The server does not exist or has no such version, or the version is deleted."""
    return not_found(f"MCP server version '{name}' version '{version}' not found")


def no_latest(name: str) -> MlflowException:
    """The server has no latest version."""
    return not_found(f"No resolved latest version found for MCP server '{name}'")


def alias_not_found(name: str, alias: str) -> MlflowException:
    """The server has no such alias."""
    return not_found(f"Alias '{alias}' not found for MCP server '{name}'")


def server_exists(name: str) -> MlflowException:
    """The name of a server is taken."""
    return already_exists(f"MCP server with name '{name}' already exists")


def version_exists(name: str, version: str) -> MlflowException:
    """The version exists, or existed before it was deleted."""
    return already_exists(f"MCP server version '{name}' version '{version}' already exists")
