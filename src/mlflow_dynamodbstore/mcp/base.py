"""What every part of the registry of MCP servers shares: reading servers and versions."""

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
from mlflow_dynamodbstore.shared.names.revisions import Change, Revisions
from mlflow_dynamodbstore.table.values import Item, Key, Value

Versions = dict[tuple[ServerPlace, str], Version]


class ServerReader:
    """The ground the entity modules stand on.

    Every change of a server, and of anything that belongs to it, raises the revision in META:
    see ``names.revisions``. A decision may therefore read versions, too: it holds only if
    nothing of the server has changed since.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.table = context.table
        self.servers: Revisions[ServerPlace, Server] = Revisions(self.table, Server, "MCP server")

    def place(self, name: str) -> ServerPlace:
        return ServerPlace(name, self.context.workspace())

    def server(
        self, name: str, missing: Callable[[str], MlflowException] = server_not_found
    ) -> Server:
        server = self.servers.find(self.place(name))
        if server is None:
            raise missing(name)
        return server

    # --- versions -------------------------------------------------------------------------------

    def find(self, place: ServerPlace, version: str) -> Version | None:
        """A version without what it says; one that was deleted is found, too."""
        if find_precedence(version) is None:
            return None
        item = self.table.get(place.version(version))
        return None if item is None else Version(place, item)

    def live(self, place: ServerPlace, version: str) -> Version:
        """A version without what it says. Raises when it is not there or was deleted."""
        found = self.find(place, version)
        if found is None or found.is_deleted:
            raise version_not_found(place.name, version)
        return found

    def versions(self, wanted: Iterable[tuple[Server, str]]) -> Versions:
        """Versions of servers with all they say; those not there are left out."""
        keys = {
            (server.place, version): server.place.version(version) for server, version in wanted
        }
        return self.versions_among(keys, self.table.get_many(keys.values()))

    def versions_among(
        self, wanted: dict[tuple[ServerPlace, str], Key], items: dict[Key, Item]
    ) -> Versions:
        found = {at: Version(at[0], items[key]) for at, key in wanted.items() if key in items}
        live = {at: version for at, version in found.items() if not version.is_deleted}
        return dict(zip(live, self.complete([*live.values()]), strict=True))

    def complete(self, versions: list[Version]) -> list[Version]:
        """Versions with what they say and with long tags, read for all of them at once."""
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

    # --- as MLflow shows them -------------------------------------------------------------------

    def with_long_tags(self, servers: list[Server]) -> list[Server]:
        """Servers whose tags are all there."""
        items = self.table.get_many(key for server in servers for key in server.long_tag_keys)
        if not items:
            return servers
        return [
            replace(server, long_tags=_long_tags(server.long_tag_keys, items)) for server in servers
        ]

    def endpoints(self, of: dict[str, Server]) -> tuple[list[Endpoint], Versions]:
        """Endpoints by their ids and servers, and the versions they lead to.

        Those that lead nowhere are left out.
        """
        versions: dict[tuple[ServerPlace, str], Key] = {}
        for endpoint_id, server in of.items():
            if endpoint_id in server.reachable:
                version = server.reachable[endpoint_id]
                versions[server.place, version] = server.place.version(version)
        own = {i: server.place.endpoint(i) for i, server in of.items() if i in server.reachable}
        items = self.table.get_many([*own.values(), *versions.values()])
        resolved = self.versions_among(versions, items)
        found = [
            Endpoint(of[i], i, items[key])
            for i, key in own.items()
            if key in items and (of[i].place, of[i].reachable[i]) in resolved
        ]
        return found, resolved


def resolved_version(endpoint: Endpoint, versions: Versions) -> MCPServerVersion:
    """The version that an endpoint leads to, as MLflow shows it."""
    server = endpoint.server
    version = server.reachable[endpoint.id]
    return versions[server.place, version].entity(server.aliases_of(version))


def assign(change: Change, **attributes: Value) -> None:
    """Let a change set attributes of META; those without a value are removed."""
    for name, value in attributes.items():
        if value is None:
            change.remove.append(name)
        else:
            change.set[name] = value


def _long_tags(wanted: dict[Key, str], items: dict[Key, Item]) -> dict[str, str | None]:
    return {name: items[key]["value"] for key, name in wanted.items() if key in items}
