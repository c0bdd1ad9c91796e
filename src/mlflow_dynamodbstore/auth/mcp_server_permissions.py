"""Users' permissions for MCP servers."""

from __future__ import annotations

from mlflow.server.auth.entities import MCPServerPermission
from mlflow.server.auth.permissions import RESOURCE_TYPE_MCP_SERVER

from mlflow_dynamodbstore.auth.records import UserRecord
from mlflow_dynamodbstore.auth.resource_permissions import ResourcePermissions, Subject
from mlflow_dynamodbstore.table.values import Item


class MCPServerPermissions(ResourcePermissions):
    """Permissions for MCP servers."""

    def create_mcp_server_permission(
        self, name: str, username: str, permission: str
    ) -> MCPServerPermission:
        return self._create_permission(_subject(name, username), username, permission)

    def get_mcp_server_permission(self, name: str, username: str) -> MCPServerPermission:
        return self._get_permission(_subject(name, username), username)

    def list_mcp_server_permissions(self, username: str) -> list[MCPServerPermission]:
        user, grants = self._permissions(username, RESOURCE_TYPE_MCP_SERVER)
        return [_entity(user, grant) for grant in grants]

    def update_mcp_server_permission(
        self, name: str, username: str, permission: str
    ) -> MCPServerPermission:
        return self._update_permission(_subject(name, username), username, permission)

    def delete_mcp_server_permission(self, name: str, username: str) -> None:
        self._delete_permission(_subject(name, username), username)


def _subject(name: str, username: str) -> Subject[MCPServerPermission]:
    return Subject.named(RESOURCE_TYPE_MCP_SERVER, "MCP server", "name", name, username, _entity)


def _entity(user: UserRecord, grant: Item) -> MCPServerPermission:
    return MCPServerPermission(grant["resource_pattern"], user.id, grant["permission"])
