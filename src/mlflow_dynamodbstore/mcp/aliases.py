"""Aliases of the versions of MCP servers."""

from __future__ import annotations

from mlflow_dynamodbstore.mcp.endpoints import remove_endpoints
from mlflow_dynamodbstore.mcp.errors import no_server, version_not_found
from mlflow_dynamodbstore.mcp.items import ALIAS, LATEST_ALIAS
from mlflow_dynamodbstore.mcp.records import Server
from mlflow_dynamodbstore.mcp.server_reader import ServerReader
from mlflow_dynamodbstore.shared.names.revisions import Change
from mlflow_dynamodbstore.shared.refusals import invalid, not_found


class ServerAliases:
    """Setting and deleting aliases."""

    def __init__(self, server_reader: ServerReader) -> None:
        self.server_reader = server_reader

    def set_mcp_server_alias(self, name: str, alias: str, version: str) -> None:
        if alias == LATEST_ALIAS:
            raise invalid("The alias name 'latest' is reserved for automatic resolution")
        place = self.server_reader.place(name)

        def decide(server: Server) -> Change | None:
            found = self.server_reader.find_version(place, version)
            if found is None:
                raise version_not_found(name, version)
            if found.is_deleted:
                raise invalid(
                    f"Cannot set alias '{alias}' to deleted MCP server version "
                    f"'{name}' version '{version}'"
                )
            if server.aliases.get(alias) == version:
                return None
            return Change(set={ALIAS + alias: version})

        self.server_reader.servers.change(place, decide, no_server)

    def delete_mcp_server_alias(self, name: str, alias: str) -> None:
        absent = not_found(f"Alias '{alias}' not found on MCP server '{name}'")

        def decide(server: Server) -> Change:
            if alias not in server.aliases:
                raise absent
            change = Change(remove=[ALIAS + alias])
            remove_endpoints(change, server, server.endpoints_of({alias}))
            return change

        self.server_reader.servers.change(self.server_reader.place(name), decide, lambda _: absent)
