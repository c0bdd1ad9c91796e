"""Reading MCP servers, their versions and their endpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from mlflow.entities.mcp_server_version import MCPServerVersion
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.mcp.contents import content_of, part_keys
from mlflow_dynamodbstore.mcp.errors import server_not_found, version_not_found
from mlflow_dynamodbstore.mcp.places import ServerPlace
from mlflow_dynamodbstore.mcp.records import Endpoint, Server, Version
from mlflow_dynamodbstore.mcp.semver import find_precedence
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.names.revisions import Revisions
from mlflow_dynamodbstore.table.values import Item, Key

Versions = dict[tuple[ServerPlace, str], Version]


class ServerReader:
    """Reading servers and what belongs to them.

    Every change of a server, and of anything that belongs to it, raises the revision in META:
    see ``names.revisions``. So a change may be decided on versions, too: it is written only if
    nothing of the server has changed since they were read.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.table = context.table
        self.servers: Revisions[ServerPlace, Server] = Revisions(self.table, Server, "MCP server")

    def place(self, name: str) -> ServerPlace:
        return ServerPlace(name, self.context.workspace())

    def get_server(
        self, name: str, missing: Callable[[str], MlflowException] = server_not_found
    ) -> Server:
        server = self.servers.find(self.place(name))
        if server is None:
            raise missing(name)
        return server

    # --- versions -------------------------------------------------------------------------------

    def find_version(self, place: ServerPlace, version: str) -> Version | None:
        """A version without its content, even a deleted one, or None."""
        if find_precedence(version) is None:
            return None
        item = self.table.get(place.version_key(version))
        return None if item is None else Version(place, item)

    def get_version(self, place: ServerPlace, version: str) -> Version:
        """A version without its content. Raises when it does not exist or is deleted."""
        found = self.find_version(place, version)
        if found is None or found.is_deleted:
            raise version_not_found(place.name, version)
        return found

    def read_versions(self, wanted: Iterable[tuple[Server, str]]) -> Versions:
        """Versions of servers with their content; those that do not exist are left out."""
        keys = {
            (server.place, version): server.place.version_key(version) for server, version in wanted
        }
        return self.versions_in(self.table.get_many(keys.values()), keys)

    def versions_in(
        self, items: dict[Key, Item], wanted: dict[tuple[ServerPlace, str], Key]
    ) -> Versions:
        """The wanted versions among items, with their content; deleted ones are left out."""
        found = {at: Version(at[0], items[key]) for at, key in wanted.items() if key in items}
        kept = {at: version for at, version in found.items() if not version.is_deleted}
        return dict(zip(kept, self.with_content([*kept.values()]), strict=True))

    def with_content(self, versions: list[Version]) -> list[Version]:
        """Versions with their content and their long tags, read for all of them at once."""
        wanted = [key for version in versions for key in part_keys(version.item)]
        wanted += [key for version in versions for key in version.long_tag_keys]
        beside = self.table.get_many(wanted)
        return [
            replace(
                version,
                content=content_of(self.table, version.item, beside),
                long_tags=_long_tags(version.long_tag_keys, beside),
            )
            for version in versions
        ]

    # --- servers and endpoints ------------------------------------------------------------------

    def with_long_tags(self, servers: list[Server]) -> list[Server]:
        """Servers with all their tags."""
        items = self.table.get_many(key for server in servers for key in server.long_tag_keys)
        if not items:
            return servers
        return [
            replace(server, long_tags=_long_tags(server.long_tag_keys, items)) for server in servers
        ]

    def read_endpoints(self, servers: dict[str, Server]) -> tuple[list[Endpoint], Versions]:
        """The endpoints of these ids and servers, and the versions they resolve to.

        Endpoints that do not resolve to a version are left out.
        """
        resolved = {
            i: (server.place, server.resolved_versions[i])
            for i, server in servers.items()
            if i in server.resolved_versions
        }
        own = {i: place.endpoint_key(i) for i, (place, _) in resolved.items()}
        wanted = {at: at[0].version_key(at[1]) for at in resolved.values()}
        items = self.table.get_many([*own.values(), *wanted.values()])
        versions = self.versions_in(items, wanted)
        found = [
            Endpoint(servers[i], i, items[key])
            for i, key in own.items()
            if key in items and resolved[i] in versions
        ]
        return found, versions


def resolved_version(endpoint: Endpoint, versions: Versions) -> MCPServerVersion:
    """The version that an endpoint resolves to, as MLflow shows it."""
    server, version = endpoint.server, endpoint.resolved_version
    return versions[server.place, version].entity(server.aliases_of(version))


def _long_tags(wanted: dict[Key, str], items: dict[Key, Item]) -> dict[str, str | None]:
    return {name: items[key]["value"] for key, name in wanted.items() if key in items}
