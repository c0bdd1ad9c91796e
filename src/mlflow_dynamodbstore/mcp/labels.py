"""Tags of MCP servers and of their versions, and the aliases of versions."""

from __future__ import annotations

from mlflow_dynamodbstore.mcp.base import ServerReader
from mlflow_dynamodbstore.mcp.errors import invalid, missing, no_server, version_not_found
from mlflow_dynamodbstore.mcp.items import ALIAS, LATEST_ALIAS
from mlflow_dynamodbstore.mcp.latest import LatestVersions
from mlflow_dynamodbstore.mcp.records import Server
from mlflow_dynamodbstore.shared.names.revisions import Change
from mlflow_dynamodbstore.shared.names.tags import as_texts
from mlflow_dynamodbstore.table.contract import Patch
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key


class ServerLabels:
    """Setting and deleting tags and aliases."""

    def __init__(self, server_reader: ServerReader, latest_versions: LatestVersions) -> None:
        self.server_reader = server_reader
        self.latest_versions = latest_versions

    # --- tags -----------------------------------------------------------------------------------

    def set_mcp_server_tag(self, name: str, key: str, value: str) -> None:
        place, tags = self.server_reader.place(name), as_texts([(key, value)])

        def decide(server: Server) -> Change:
            tagging = place.tagging().setting(server.item, tags)
            return Change(tagging.set, tagging.remove, [*tagging.writes])

        self.server_reader.servers.change(place, decide, no_server)

    def delete_mcp_server_tag(self, name: str, key: str) -> None:
        place = self.server_reader.place(name)
        not_found = missing(f"Tag '{key}' not found on MCP server '{name}'")

        def decide(server: Server) -> Change:
            tagging = place.tagging().removing(server.item, key)
            if tagging is None:
                raise not_found
            return Change(tagging.set, tagging.remove, [*tagging.writes])

        self.server_reader.servers.change(place, decide, lambda _: not_found)

    def set_mcp_server_version_tag(self, name: str, version: str, key: str, value: str) -> None:
        place, tags = self.server_reader.place(name), as_texts([(key, value)])

        def decide(_: Server) -> Change:
            before = self.server_reader.live(place, version)
            return _version_change(
                place.version(version), place.tagging(version).setting(before.item, tags)
            )

        self.server_reader.servers.change(place, decide, lambda _: version_not_found(name, version))

    def delete_mcp_server_version_tag(self, name: str, version: str, key: str) -> None:
        place = self.server_reader.place(name)

        def decide(_: Server) -> Change:
            before = self.server_reader.live(place, version)
            tagging = place.tagging(version).removing(before.item, key)
            if tagging is None:
                raise missing(
                    f"Tag '{key}' not found on MCP server version '{name}' version '{version}'"
                )
            return _version_change(place.version(version), tagging)

        self.server_reader.servers.change(place, decide, lambda _: version_not_found(name, version))

    # --- aliases --------------------------------------------------------------------------------

    def set_mcp_server_alias(self, name: str, alias: str, version: str) -> None:
        if alias == LATEST_ALIAS:
            raise invalid("The alias name 'latest' is reserved for automatic resolution")
        place = self.server_reader.place(name)

        def decide(server: Server) -> Change | None:
            found = self.server_reader.find(place, version)
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
        not_found = missing(f"Alias '{alias}' not found on MCP server '{name}'")

        def decide(server: Server) -> Change:
            if alias not in server.aliases:
                raise not_found
            change = Change(remove=[ALIAS + alias])
            self.latest_versions.remove_endpoints(change, server, {alias})
            return change

        self.server_reader.servers.change(
            self.server_reader.place(name), decide, lambda _: not_found
        )


def _version_change(version: Key, tagging: Change) -> Change:
    update = Update(set=tagging.set, remove=tuple(tagging.remove))
    return Change(writes=[Patch(version, update), *tagging.writes])
