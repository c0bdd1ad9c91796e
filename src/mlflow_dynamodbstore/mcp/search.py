"""Searching MCP servers, their versions and their endpoints.

All reads are consistent: names of servers come from the guards of the workspace, servers from their
META, versions from the partition of their server, endpoints from their server or from the entries
of the workspace. The filter is applied here, to what was read. In an order by name, id or version,
a page costs only what it shows. Any other order reads all candidates first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from mlflow.entities.mcp_access_endpoint import MCPAccessEndpoint
from mlflow.entities.mcp_server import MCPServer
from mlflow.entities.mcp_server_version import MCPServerVersion
from mlflow.store.entities.paged_list import PagedList
from mlflow.store.tracking import SEARCH_MAX_RESULTS_DEFAULT

from mlflow_dynamodbstore.keys import mcp as mcp_keys
from mlflow_dynamodbstore.keys.access import workspace_pk
from mlflow_dynamodbstore.mcp.checks import check_max_results
from mlflow_dynamodbstore.mcp.items import NOT_DELETED, Target
from mlflow_dynamodbstore.mcp.places import ServerPlace
from mlflow_dynamodbstore.mcp.records import PRECEDENCE, Endpoint, Server, Version
from mlflow_dynamodbstore.mcp.search_terms import (
    NAME,
    SERVER_NAME,
    SERVERS,
    STATUS,
    endpoint_filter,
    endpoint_ordering,
    server_filter,
    server_ordering,
    version_filter,
    version_ordering,
)
from mlflow_dynamodbstore.mcp.semver import precedence
from mlflow_dynamodbstore.mcp.server_reader import ServerReader, resolved_version
from mlflow_dynamodbstore.mcp.servers import Servers
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.names.search import Filter, Names
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.search.filters import Searchable, all_hold
from mlflow_dynamodbstore.shared.search.ordering import Ordering, Position, position_after
from mlflow_dynamodbstore.shared.search.pages import groups_in_order, in_order, page, sort_groups
from mlflow_dynamodbstore.table.contract import Query

Row = TypeVar("Row", bound=Searchable)

MAX_SERVERS = 1000
SERVERS_AT_ONCE = 500
ENDPOINTS_AT_ONCE = 250


class ServerSearch:
    """Finding servers, versions and endpoints by filters."""

    def __init__(self, context: Context, server_reader: ServerReader, mcp_servers: Servers) -> None:
        self.context = context
        self.table = context.table
        self.server_reader = server_reader
        self.mcp_servers = mcp_servers

    # --- servers --------------------------------------------------------------------------------

    def search_mcp_servers(
        self,
        filter_string: str | None = None,
        max_results: int = SEARCH_MAX_RESULTS_DEFAULT,
        order_by: list[str] | None = None,
        page_token: str | None = None,
    ) -> PagedList[MCPServer]:
        check_max_results(max_results)
        if max_results > MAX_SERVERS:
            raise invalid(
                f"Invalid value for max_results. It must be at most {MAX_SERVERS}, "
                f"but got {max_results}"
            )
        wanted = server_filter(filter_string)
        ordering = server_ordering(tuple(order_by or ()))
        after = position_after(ordering, page_token)
        names = Names(self.table, self.context.workspace(), wanted, SERVERS)
        chunks = batched(names.listed(ordering, after), min(max_results + 1, SERVERS_AT_ONCE))
        groups = (self._matching_servers(chunk, wanted) for chunk in chunks)
        found, token = page(groups_in_order(groups, ordering, NAME), ordering, after, max_results)
        return PagedList(self.mcp_servers.entities(found), token)

    def _matching_servers(self, names: Iterable[str], wanted: Filter) -> list[Server]:
        """The servers of these names that satisfy a filter."""
        servers = self._named(names)
        if wanted.has_tags:
            servers = self.server_reader.with_long_tags(servers)
        return list(filter(all_hold(wanted.terms), servers))

    def _named(self, names: Iterable[str]) -> list[Server]:
        places = [self.server_reader.place(name) for name in names]
        metas = self.table.get_many(place.key for place in places)
        found = (self.server_reader.servers.seen(place, metas.get(place.key)) for place in places)
        return [server for server in found if server is not None]

    # --- versions -------------------------------------------------------------------------------

    def search_mcp_server_versions(
        self,
        name: str,
        filter_string: str | None = None,
        max_results: int = SEARCH_MAX_RESULTS_DEFAULT,
        order_by: list[str] | None = None,
        page_token: str | None = None,
    ) -> PagedList[MCPServerVersion]:
        check_max_results(max_results)
        wanted = version_filter(filter_string)
        ordering = version_ordering(tuple(order_by or ()))
        after = position_after(ordering, page_token)
        server = self.server_reader.servers.find(self.server_reader.place(name))
        if server is None:
            return PagedList([], None)
        rows = self._list_versions(server.place, ordering, max_results, after)
        matching = filter(all_hold(wanted.terms), rows)
        if ordering.keys[0].name == PRECEDENCE:
            entries = ([(precedence(row.version), row)] for row in matching)
            pages = sort_groups(entries, ordering)
        else:
            pages = iter([in_order(list(matching), ordering)])
        found, token = page(chain.from_iterable(pages), ordering, after, max_results)
        entities = [
            v.entity(server.aliases_of(v.version)) for v in self.server_reader.with_content(found)
        ]
        return PagedList(entities, token)

    def _list_versions(
        self, place: ServerPlace, ordering: Ordering, size: int, after: Position | None
    ) -> Iterator[Version]:
        """The versions of a server; in an order by precedence, those from a position on."""
        first = ordering.keys[0]
        descending = first.name == PRECEDENCE and not first.ascending
        where = mcp_keys.SERVER_VERSIONS
        if first.name == PRECEDENCE and after is not None:
            where = mcp_keys.server_versions_from(str(after[0][1]), descending=descending)
        query = Query(
            place.pk,
            where=where.on(),
            descending=descending,
            limit=size + 1 if first.name == PRECEDENCE else None,
            filter=NOT_DELETED,
        )
        return (Version(place, item) for item in self.table.items(query))

    # --- endpoints ------------------------------------------------------------------------------

    def search_mcp_access_endpoints(
        self,
        server_name: str | None = None,
        server_version: str | None = None,
        server_alias: str | None = None,
        filter_string: str | None = None,
        max_results: int = SEARCH_MAX_RESULTS_DEFAULT,
        order_by: list[str] | None = None,
        page_token: str | None = None,
    ) -> PagedList[MCPAccessEndpoint]:
        check_max_results(max_results)
        wanted = endpoint_filter(filter_string)
        ordering = endpoint_ordering(tuple(order_by or ()))
        after = position_after(ordering, page_token)
        target = Target(server_version, server_alias)
        groups = (
            self._matching_endpoints(servers, wanted, target)
            for servers in self._endpoint_servers(server_name, wanted, ordering, after)
        )
        found, token = page(groups_in_order(groups, ordering, "id"), ordering, after, max_results)
        versions = self.server_reader.read_versions((e.server, e.resolved_version) for e in found)
        shown = [e for e in found if (e.server.place, e.resolved_version) in versions]
        return PagedList([e.entity(resolved_version(e, versions)) for e in shown], token)

    def _endpoint_servers(
        self,
        server_name: str | None,
        wanted: Filter,
        ordering: Ordering,
        after: Position | None,
    ) -> Iterator[dict[str, Server]]:
        """The ids of the endpoints to look at, with their servers, in groups.

        An order by id is kept where the endpoints of the whole workspace are listed.
        """
        names = wanted.exact(SERVER_NAME)
        if server_name is not None:
            names = [server_name] if names is None or server_name in names else []
        if names is not None:
            yield {i: server for server in self._named(names) for i in server.resolved_versions}
            return
        for entries in self._list_entries(ordering, after):
            servers = {s.name: s for s in self._named(dict.fromkeys(entries.values()))}
            yield {i: servers[name] for i, name in entries.items() if name in servers}

    def _list_entries(self, ordering: Ordering, after: Position | None) -> Iterator[dict[str, str]]:
        """The ids of the workspace's endpoints, with the names of their servers, in groups."""
        first = ordering.keys[0]
        is_by_id = first.name == "id"
        descending = is_by_id and not first.ascending
        where = mcp_keys.WORKSPACE_ENDPOINTS
        if is_by_id and after is not None:
            where = mcp_keys.workspace_endpoints_from(str(after[0][1]), descending=descending)
        query = Query(
            workspace_pk(self.context.workspace()),
            where=where.on(),
            descending=descending,
            limit=ENDPOINTS_AT_ONCE,
        )
        for entries in batched(self.table.items(query), ENDPOINTS_AT_ONCE):
            yield {str(mcp_keys.workspace_endpoint_of(e["SK"])): str(e["server"]) for e in entries}

    def _matching_endpoints(
        self, servers: dict[str, Server], wanted: Filter, target: Target
    ) -> list[Endpoint]:
        """The endpoints, of these ids and servers, that have a target and satisfy a filter."""
        keys = {
            i: server.place.endpoint_key(i)
            for i, server in servers.items()
            if i in server.resolved_versions
            and target.version in (None, server.targets[i].version)
            and target.alias in (None, server.targets[i].alias)
        }
        items = self.table.get_many(keys.values())
        found = [Endpoint(servers[i], i, items[key]) for i, key in keys.items() if key in items]
        if wanted.on(STATUS):
            found = self._with_status(found)
        return list(filter(all_hold(wanted.terms), found))

    def _with_status(self, endpoints: list[Endpoint]) -> list[Endpoint]:
        """Endpoints with the status of the versions they resolve to."""
        keys = {e.id: e.server.place.version_key(e.resolved_version) for e in endpoints}
        items = self.table.get_many(keys.values())
        return [
            replace(e, status=str(items[keys[e.id]][STATUS]))
            for e in endpoints
            if keys[e.id] in items
        ]
