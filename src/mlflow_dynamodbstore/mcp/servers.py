"""MCP servers: create, get, update, delete."""

from __future__ import annotations

import json
from typing import Any

from mlflow.entities.mcp_server import MCPServer, validate_mcp_server_name
from mlflow.store.tracking.mcp_server_registry.abstract_mixin import NOT_SET
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.mcp.checks import Icons, checked_icons
from mlflow_dynamodbstore.mcp.errors import no_server, server_exists
from mlflow_dynamodbstore.mcp.items import ACTIVE, given, new_meta
from mlflow_dynamodbstore.mcp.records import Server
from mlflow_dynamodbstore.mcp.server_reader import ServerReader, resolved_version
from mlflow_dynamodbstore.shared.names.claims import NameTakenError
from mlflow_dynamodbstore.shared.names.revisions import Change
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.workspaces import WorkspacesInUse


class Servers:
    """The servers of a workspace."""

    def __init__(self, server_reader: ServerReader, workspaces_in_use: WorkspacesInUse) -> None:
        self.server_reader = server_reader
        self.workspaces_in_use = workspaces_in_use

    def create_mcp_server(
        self,
        name: str,
        description: str | None = None,
        icons: Icons | None = None,
        created_by: str | None = None,
    ) -> MCPServer:
        validate_mcp_server_name(name)
        own = given(description=description, icons=_stored(checked_icons(icons)))
        place = self.server_reader.place(name)
        meta = {**new_meta(place, get_current_time_millis(), created_by), **own}
        self.workspaces_in_use.note(place.workspace)
        try:
            return self.server_reader.servers.create(place, meta, []).entity([])
        except NameTakenError as taken:
            raise server_exists(name) from taken

    def get_mcp_server(self, name: str) -> MCPServer:
        (server,) = self.entities([self.server_reader.get_server(name)])
        return server

    def update_mcp_server(
        self,
        name: str,
        description: Any = NOT_SET,
        display_name: Any = NOT_SET,
        icons: Any = NOT_SET,
        last_updated_by: str | None = None,
    ) -> MCPServer:
        texts = {"description": description, "display_name": display_name}
        changed = {attribute: text for attribute, text in texts.items() if text is not NOT_SET}
        if icons is not NOT_SET:
            changed["icons"] = _stored(checked_icons(icons))
        changed |= {"updated": get_current_time_millis(), "updated_by": last_updated_by}

        def decide(_: Server) -> Change:
            removed = [attribute for attribute, value in changed.items() if value is None]
            return Change(set=given(**changed), remove=removed)

        changed_server = self.server_reader.servers.change(
            self.server_reader.place(name), decide, no_server
        )
        (server,) = self.entities([changed_server])
        return server

    def delete_mcp_server(self, name: str) -> None:
        self.server_reader.servers.remove(
            self.server_reader.place(name), no_server, _check_inactive
        )

    def entities(self, servers: list[Server]) -> list[MCPServer]:
        """Servers as MLflow shows them, with their endpoints, read for all of them at once."""
        servers = self.server_reader.with_long_tags(servers)
        endpoints, versions = self.server_reader.read_endpoints(
            {endpoint_id: server for server in servers for endpoint_id in server.resolved_versions}
        )
        long = [(s, s.latest.version) for s in servers if s.latest and s.needs_latest]
        unread = [(s, version) for s, version in long if (s.place, version) not in versions]
        versions = {**versions, **self.server_reader.read_versions(unread)}
        shown: dict[str, list[Any]] = {server.name: [] for server in servers}
        for endpoint in endpoints:
            entity = endpoint.entity(resolved_version(endpoint, versions))
            shown[endpoint.server.name].append(entity)
        latest = {s.name: versions.get((s.place, version)) for s, version in long}
        return [server.entity(shown[server.name], latest.get(server.name)) for server in servers]


def _check_inactive(server: Server) -> None:
    if server.latest is not None and server.latest.status == ACTIVE:
        raise invalid(
            f"Cannot delete MCP server '{server.name}' while it still has an active version "
            f"('{server.latest.version}'). Delete or deactivate the active version first."
        )


def _stored(icons: Icons | None) -> str | None:
    return None if icons is None else json.dumps(icons)
