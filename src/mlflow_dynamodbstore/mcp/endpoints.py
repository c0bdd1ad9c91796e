"""Access endpoints of MCP servers: create, get, update, delete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mlflow.entities.mcp_access_endpoint import MCPAccessEndpoint
from mlflow.entities.mcp_server import MCPRemoteTransportType
from mlflow.store.tracking.mcp_server_registry.abstract_mixin import NOT_SET
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import mcp as mcp_keys
from mlflow_dynamodbstore.mcp.checks import check_url
from mlflow_dynamodbstore.mcp.errors import (
    alias_not_found,
    endpoint_not_found,
    endpoint_of_other_server,
    no_endpoint,
    no_latest,
    no_server,
    version_not_found,
)
from mlflow_dynamodbstore.mcp.items import ENDPOINT, LATEST_ALIAS, Target, new_endpoint, update_at
from mlflow_dynamodbstore.mcp.places import ServerPlace
from mlflow_dynamodbstore.mcp.records import Endpoint, Server, Version
from mlflow_dynamodbstore.mcp.server_reader import ServerReader, resolved_version
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.names.revisions import Change
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put
from mlflow_dynamodbstore.table.values import Item

PREFIX = "ae-"


class AccessEndpoints:
    """The endpoints of a server."""

    def __init__(self, context: Context, server_reader: ServerReader) -> None:
        self.context = context
        self.table = context.table
        self.server_reader = server_reader

    def create_mcp_access_endpoint(
        self,
        server_name: str,
        url: str,
        transport_type: MCPRemoteTransportType = MCPRemoteTransportType.STREAMABLE_HTTP,
        server_version: str | None = None,
        server_alias: str | None = None,
        created_by: str | None = None,
    ) -> MCPAccessEndpoint:
        if (server_version is None) == (server_alias is None):
            raise invalid("Exactly one of server_version or server_alias must be provided")
        check_url(url)
        place, target = self.server_reader.place(server_name), Target(server_version, server_alias)
        endpoint_id = PREFIX + ids.new_id()
        transport = MCPRemoteTransportType(transport_type).value
        now = get_current_time_millis()
        item = new_endpoint(place, endpoint_id, now, url=url, transport=transport, by=created_by)

        resolved: Version | None = None

        def decide(server: Server) -> Change:
            nonlocal resolved
            resolved = self._resolve(server, target, "create")
            return Change(
                set={ENDPOINT + endpoint_id: target.stored()},
                writes=[Put(item), Put(place.endpoint_entry(endpoint_id))],
            )

        server = self.server_reader.servers.change(place, decide, no_server)
        return _entity(Endpoint(server, endpoint_id, item), resolved)

    def get_mcp_access_endpoint(self, server_name: str, endpoint_id: str) -> MCPAccessEndpoint:
        server = self.server_reader.servers.find(self.server_reader.place(server_name))
        if server is not None and endpoint_id in server.targets:
            return self._read(server, endpoint_id)
        owner = self._owner(endpoint_id)
        if owner is None or endpoint_id not in owner.resolved_versions:
            raise endpoint_not_found(endpoint_id)
        raise endpoint_of_other_server(endpoint_id, server_name)

    def update_mcp_access_endpoint(
        self,
        server_name: str,
        endpoint_id: str,
        server_version: Any = NOT_SET,
        server_alias: Any = NOT_SET,
        url: Any = NOT_SET,
        transport_type: Any = NOT_SET,
        last_updated_by: str | None = None,
    ) -> MCPAccessEndpoint:
        target = Target(
            None if server_version is NOT_SET else server_version,
            None if server_alias is NOT_SET else server_alias,
        )
        if None not in target:
            raise invalid("Cannot set both server_version and server_alias in a single update")
        place, now = self.server_reader.place(server_name), get_current_time_millis()
        update = update_at(
            now,
            last_updated_by,
            url=None if url is NOT_SET else url,
            transport=_transport(None if transport_type is NOT_SET else transport_type),
        )
        before: Item | None = None
        resolved: Version | None = None

        def decide(server: Server) -> Change:
            nonlocal before, resolved
            resolved = None
            before = self._item(server, endpoint_id)
            change = Change(writes=[Patch(place.endpoint_key(endpoint_id), update)])
            if target != Target():
                resolved = self._resolve(server, target, "update")
                change.set[ENDPOINT + endpoint_id] = target.stored()
            elif endpoint_id in server.resolved_versions:
                resolved = self._resolve(server, server.targets[endpoint_id], "update")
            if url is None:
                raise invalid("MCP access endpoint url cannot be None")
            if url is not NOT_SET:
                check_url(url)
            return change

        server = self.server_reader.servers.change(
            place, decide, lambda _: self._missing(place, endpoint_id)
        )
        return _entity(Endpoint(server, endpoint_id, update.apply(before or {})), resolved)

    def delete_mcp_access_endpoint(self, server_name: str, endpoint_id: str) -> None:
        place = self.server_reader.place(server_name)

        def decide(server: Server) -> Change:
            if endpoint_id not in server.targets:
                raise self._missing(place, endpoint_id)
            change = Change()
            remove_endpoints(change, server, [endpoint_id])
            return change

        self.server_reader.servers.change(
            place, decide, lambda _: self._missing(place, endpoint_id)
        )

    # --- helpers --------------------------------------------------------------------------------

    def _read(self, server: Server, endpoint_id: str) -> MCPAccessEndpoint:
        endpoints, versions = self.server_reader.read_endpoints({endpoint_id: server})
        if not endpoints:
            raise endpoint_not_found(endpoint_id)
        return endpoints[0].entity(resolved_version(endpoints[0], versions))

    def _owner(self, endpoint_id: str) -> Server | None:
        """The server in the active workspace that has an endpoint, or None."""
        entry = self.table.get(
            mcp_keys.workspace_endpoint(str(endpoint_id), self.context.workspace())
        )
        if entry is None:
            return None
        owner = self.server_reader.servers.find(self.server_reader.place(entry["server"]))
        return owner if owner is not None and endpoint_id in owner.targets else None

    def _item(self, server: Server, endpoint_id: str) -> Item:
        is_known = endpoint_id in server.targets
        item = self.table.get(server.place.endpoint_key(endpoint_id)) if is_known else None
        if item is None:
            raise self._missing(server.place, endpoint_id)
        return item

    def _missing(self, place: ServerPlace, endpoint_id: str) -> Exception:
        """The error for a server that does not have an endpoint."""
        if self._owner(endpoint_id) is None:
            return no_endpoint(endpoint_id)
        return endpoint_of_other_server(endpoint_id, place.name)

    def _resolve(self, server: Server, target: Target, action: str) -> Version:
        """The version of a target, with its content. Raises when there is none."""
        version = str(target.version)
        if target.alias is not None:
            version = _version_of_alias(server, target.alias)
        found = self.server_reader.find_version(server.place, version)
        if found is None:
            raise version_not_found(server.name, version)
        if found.is_deleted:
            raise invalid(
                f"Cannot {action} MCP access endpoint to deleted "
                f"MCP server version '{server.name}' version '{version}'"
            )
        (complete,) = self.server_reader.with_content([found])
        return complete


def remove_endpoints(change: Change, server: Server, endpoint_ids: Iterable[str]) -> None:
    """Let a change remove endpoints of its server."""
    for endpoint_id in endpoint_ids:
        change.remove.append(ENDPOINT + endpoint_id)
        change.writes += [
            Delete(mcp_keys.workspace_endpoint(endpoint_id, server.place.workspace)),
            Delete(server.place.endpoint_key(endpoint_id)),
        ]


def _version_of_alias(server: Server, alias: str) -> str:
    """The version of an alias."""
    if alias == LATEST_ALIAS:
        if server.latest is None:
            raise no_latest(server.name)
        return server.latest.version
    if alias not in server.aliases:
        raise alias_not_found(server.name, alias)
    version = server.aliases[alias]
    if version in server.deleted_versions:
        raise invalid(
            f"Alias '{alias}' for MCP server '{server.name}' points to deleted version '{version}'"
        )
    return version


def _entity(endpoint: Endpoint, resolved: Version | None) -> MCPAccessEndpoint:
    if resolved is None:
        return endpoint.entity(None)
    return endpoint.entity(resolved.entity(endpoint.server.aliases_of(resolved.version)))


def _transport(transport_type: Any) -> str | None:
    return None if transport_type is None else str(MCPRemoteTransportType(transport_type).value)
