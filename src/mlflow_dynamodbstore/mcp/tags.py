"""Tags of MCP servers and of their versions."""

from __future__ import annotations

from mlflow_dynamodbstore.mcp.errors import no_server, version_not_found
from mlflow_dynamodbstore.mcp.records import Server
from mlflow_dynamodbstore.mcp.server_reader import ServerReader
from mlflow_dynamodbstore.shared.names.revisions import Change
from mlflow_dynamodbstore.shared.names.tags import as_texts
from mlflow_dynamodbstore.shared.refusals import not_found
from mlflow_dynamodbstore.table.contract import Patch
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key


class ServerTags:
    """Setting and deleting tags."""

    def __init__(self, server_reader: ServerReader) -> None:
        self.server_reader = server_reader

    def set_mcp_server_tag(self, name: str, key: str, value: str) -> None:
        place, tags = self.server_reader.place(name), as_texts([(key, value)])

        def decide(server: Server) -> Change:
            return place.tagging().setting(server.item, tags)

        self.server_reader.servers.change(place, decide, no_server)

    def delete_mcp_server_tag(self, name: str, key: str) -> None:
        place = self.server_reader.place(name)
        absent = not_found(f"Tag '{key}' not found on MCP server '{name}'")

        def decide(server: Server) -> Change:
            change = place.tagging().removing(server.item, key)
            if change is None:
                raise absent
            return change

        self.server_reader.servers.change(place, decide, lambda _: absent)

    def set_mcp_server_version_tag(self, name: str, version: str, key: str, value: str) -> None:
        place, tags = self.server_reader.place(name), as_texts([(key, value)])

        def decide(_: Server) -> Change:
            before = self.server_reader.get_version(place, version)
            return _version_change(
                place.version_key(version), place.tagging(version).setting(before.item, tags)
            )

        self.server_reader.servers.change(place, decide, lambda _: version_not_found(name, version))

    def delete_mcp_server_version_tag(self, name: str, version: str, key: str) -> None:
        place = self.server_reader.place(name)

        def decide(_: Server) -> Change:
            before = self.server_reader.get_version(place, version)
            tagging = place.tagging(version).removing(before.item, key)
            if tagging is None:
                raise not_found(
                    f"Tag '{key}' not found on MCP server version '{name}' version '{version}'"
                )
            return _version_change(place.version_key(version), tagging)

        self.server_reader.servers.change(place, decide, lambda _: version_not_found(name, version))


def _version_change(version: Key, tagging: Change) -> Change:
    update = Update(set=tagging.set, remove=tuple(tagging.remove))
    return Change(writes=[Patch(version, update), *tagging.writes])
