"""Access endpoints of MCP servers: create, get, update, delete."""

from __future__ import annotations

from typing import Any

from mlflow.entities.mcp_access_endpoint import MCPAccessEndpoint
from mlflow.entities.mcp_server import MCPRemoteTransportType
from mlflow.store.tracking.mcp_server_registry.abstract_mixin import NOT_SET
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore import ids
from mlflow_dynamodbstore.keys import mcp as keys
from mlflow_dynamodbstore.mcp.base import McpBase, resolved_version
from mlflow_dynamodbstore.mcp.checks import check_url
from mlflow_dynamodbstore.mcp.errors import (
    alias_not_found,
    endpoint_elsewhere,
    endpoint_not_found,
    invalid,
    no_endpoint,
    no_latest,
    no_server,
    version_not_found,
)
from mlflow_dynamodbstore.mcp.items import ENDPOINT, LATEST_ALIAS, Target, new_endpoint
from mlflow_dynamodbstore.mcp.places import ServerPlace
from mlflow_dynamodbstore.mcp.records import Server
from mlflow_dynamodbstore.registry.revisions import Change
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key

PREFIX = "ae-"


class AccessEndpoints(McpBase):
    """The endpoints of a server."""

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
        place, target = self._mcp_place(server_name), Target(server_version, server_alias)
        endpoint_id = PREFIX + ids.new_id()
        transport = MCPRemoteTransportType(transport_type).value
        now = get_current_time_millis()
        item = new_endpoint(place, endpoint_id, now, url=url, transport=transport, by=created_by)

        def decide(server: Server) -> Change:
            self._mcp_check_target(server, target, "create")
            return Change(
                set={ENDPOINT + endpoint_id: target.stored()},
                writes=[Put(item), Put(place.endpoint_entry(endpoint_id))],
            )

        server = self._mcp_servers.change(place, decide, no_server)
        return self._mcp_endpoint(server, endpoint_id)

    def get_mcp_access_endpoint(self, server_name: str, endpoint_id: str) -> MCPAccessEndpoint:
        server = self._mcp_servers.find(self._mcp_place(server_name))
        if server is not None and endpoint_id in server.targets:
            return self._mcp_endpoint(server, endpoint_id)
        owner = self._mcp_owner(endpoint_id)
        if owner is None or endpoint_id not in owner.reachable:
            raise endpoint_not_found(endpoint_id)
        raise endpoint_elsewhere(endpoint_id, server_name)

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
        place, now = self._mcp_place(server_name), get_current_time_millis()
        update = Update(
            set={
                "updated": now,
                **({} if last_updated_by is None else {"updated_by": last_updated_by}),
                **({} if url is NOT_SET else {"url": url}),
                **_transport(transport_type),
            },
            remove=("updated_by",) if last_updated_by is None else (),
        )

        def decide(server: Server) -> Change:
            self._mcp_check_has(server, endpoint_id)
            change = Change(writes=[Patch(place.endpoint(endpoint_id), update)])
            if target != Target():
                self._mcp_check_target(server, target, "update")
                change.set[ENDPOINT + endpoint_id] = target.stored()
            if url is None:
                raise invalid("MCP access endpoint url cannot be None")
            if url is not NOT_SET:
                check_url(url)
            return change

        server = self._mcp_servers.change(
            place, decide, lambda _: self._mcp_no_such(place, endpoint_id)
        )
        return self._mcp_endpoint(server, endpoint_id)

    def delete_mcp_access_endpoint(self, server_name: str, endpoint_id: str) -> None:
        place = self._mcp_place(server_name)
        entry = place.endpoint_entry(endpoint_id)

        def decide(server: Server) -> Change:
            self._mcp_check_has(server, endpoint_id)
            gone = [Key(entry["PK"], entry["SK"]), place.endpoint(endpoint_id)]
            return Change(remove=[ENDPOINT + endpoint_id], writes=[Delete(key) for key in gone])

        self._mcp_servers.change(place, decide, lambda _: self._mcp_no_such(place, endpoint_id))

    # --- whose it is and where it leads -----------------------------------------------------------

    def _mcp_endpoint(self, server: Server, endpoint_id: str) -> MCPAccessEndpoint:
        endpoints, versions = self._mcp_endpoints({endpoint_id: server})
        if not endpoints:
            raise endpoint_not_found(endpoint_id)
        return endpoints[0].entity(resolved_version(endpoints[0], versions))

    def _mcp_owner(self, endpoint_id: str) -> Server | None:
        """The server of the active workspace that has an endpoint."""
        entry = self.table.get(
            keys.workspace_endpoint(str(endpoint_id), self._get_active_workspace())
        )
        owner = None if entry is None else self._mcp_servers.find(self._mcp_place(entry["server"]))
        return owner if owner is not None and endpoint_id in owner.targets else None

    def _mcp_check_has(self, server: Server, endpoint_id: str) -> None:
        if endpoint_id not in server.targets:
            raise self._mcp_no_such(server.place, endpoint_id)

    def _mcp_no_such(self, place: ServerPlace, endpoint_id: str) -> Exception:
        """Why a server does not have an endpoint."""
        if self._mcp_owner(endpoint_id) is None:
            return no_endpoint(endpoint_id)
        return endpoint_elsewhere(endpoint_id, place.name)

    def _mcp_check_target(self, server: Server, target: Target, doing: str) -> None:
        """Refuse what an endpoint cannot lead to."""
        if target.alias is not None:
            self._mcp_check_alias(server, target.alias)
            return
        found = self._mcp_find(server.place, str(target.version))
        if found is None:
            raise version_not_found(server.name, str(target.version))
        if found.is_deleted:
            raise invalid(
                f"Cannot {doing} MCP access endpoint to deleted "
                f"MCP server version '{server.name}' version '{target.version}'"
            )

    def _mcp_check_alias(self, server: Server, alias: str) -> None:
        if alias == LATEST_ALIAS:
            if server.latest is None:
                raise no_latest(server.name)
        elif alias not in server.aliases:
            raise alias_not_found(server.name, alias)
        elif server.aliases[alias] in server.dead:
            raise invalid(
                f"Alias '{alias}' for MCP server '{server.name}' "
                f"points to deleted version '{server.aliases[alias]}'"
            )


def _transport(transport_type: Any) -> dict[str, str]:
    if transport_type is NOT_SET or transport_type is None:
        return {}
    return {"transport": MCPRemoteTransportType(transport_type).value}
