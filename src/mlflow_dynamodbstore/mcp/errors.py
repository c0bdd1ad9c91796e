"""What the registry of MCP servers refuses, in MLflow's words."""

from __future__ import annotations

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import (
    INVALID_PARAMETER_VALUE,
    RESOURCE_ALREADY_EXISTS,
    RESOURCE_DOES_NOT_EXIST,
    TEMPORARILY_UNAVAILABLE,
)


def invalid(message: str) -> MlflowException:
    """What was asked for makes no sense."""
    return MlflowException(message, INVALID_PARAMETER_VALUE)


def missing(message: str) -> MlflowException:
    """Something is not there, or not in this workspace."""
    return MlflowException(message, RESOURCE_DOES_NOT_EXIST)


def server_not_found(name: str) -> MlflowException:
    """There is no such server to be read."""
    return missing(f"MCP server '{name}' not found")


def no_server(name: str) -> MlflowException:
    """There is no such server to be worked on."""
    return missing(f"MCPServer not found (name='{name}')")


def no_endpoint(endpoint_id: str) -> MlflowException:
    """There is no such endpoint to be worked on."""
    return missing(f"MCPAccessEndpoint not found (id='{endpoint_id}')")


def endpoint_not_found(endpoint_id: str) -> MlflowException:
    """There is no such endpoint to be read, or it leads nowhere."""
    return missing(f"MCPAccessEndpoint {endpoint_id} not found")


def endpoint_of_other_server(endpoint_id: str, name: str) -> MlflowException:
    """An endpoint belongs to another server."""
    return missing(f"MCPAccessEndpoint {endpoint_id} does not belong to server '{name}'")


def version_not_found(name: str, version: str) -> MlflowException:
    """The server has no such version, or it was deleted, or there is no such server."""
    return missing(f"MCP server version '{name}' version '{version}' not found")


def no_latest(name: str) -> MlflowException:
    """The server has no version that could be the latest."""
    return missing(f"No resolved latest version found for MCP server '{name}'")


def alias_not_found(name: str, alias: str) -> MlflowException:
    """The server has no such alias."""
    return missing(f"Alias '{alias}' not found for MCP server '{name}'")


def server_exists(name: str) -> MlflowException:
    """The name is taken."""
    return MlflowException(f"MCP server with name '{name}' already exists", RESOURCE_ALREADY_EXISTS)


def version_exists(name: str, version: str) -> MlflowException:
    """The version is there, or was until it was deleted."""
    return MlflowException(
        f"MCP server version '{name}' version '{version}' already exists", RESOURCE_ALREADY_EXISTS
    )


def too_busy(name: str) -> MlflowException:
    """Somebody else was faster each time."""
    return MlflowException(
        f"MCP server '{name}' is being changed by others all the time; try again.",
        TEMPORARILY_UNAVAILABLE,
    )
