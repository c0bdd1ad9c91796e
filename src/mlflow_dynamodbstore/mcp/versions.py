"""Versions of MCP servers: create, get, update, delete."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mlflow.entities.mcp_server import MCPStatus, validate_mcp_server_name
from mlflow.entities.mcp_server_version import ConnectOptionSettings, MCPServerVersion
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.mcp_server_registry.abstract_mixin import NOT_SET
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.mcp.checks import (
    check_transition,
    checked_connect_options,
    checked_server_json,
    checked_tools,
)
from mlflow_dynamodbstore.mcp.contents import (
    CONTENT,
    Content,
    ContentDrafts,
    part_keys,
    stored_content,
)
from mlflow_dynamodbstore.mcp.endpoints import remove_endpoints
from mlflow_dynamodbstore.mcp.errors import (
    alias_not_found,
    no_latest,
    no_server,
    version_exists,
    version_not_found,
)
from mlflow_dynamodbstore.mcp.items import (
    ALIAS,
    DELETED,
    DELETED_VERSION,
    LATEST_ALIAS,
    new_meta,
    new_version,
    tombstone,
    update_at,
)
from mlflow_dynamodbstore.mcp.latest_versions import LatestVersions
from mlflow_dynamodbstore.mcp.records import Server, Version
from mlflow_dynamodbstore.mcp.semver import find_precedence, precedence
from mlflow_dynamodbstore.mcp.server_reader import ServerReader
from mlflow_dynamodbstore.mlflow_compat.validation import validate_mcp_initial_status
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.names.claims import NameTakenError
from mlflow_dynamodbstore.shared.names.revisions import Change
from mlflow_dynamodbstore.shared.optimistic import Outdated, optimistically
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.workspaces import WorkspacesInUse
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put
from mlflow_dynamodbstore.table.errors import TransactionCancelled
from mlflow_dynamodbstore.table.values import Item


class NoServerError(Exception):
    """The server of a new version does not exist."""


class ServerVersions:
    """The versions of a server."""

    def __init__(
        self,
        context: Context,
        workspaces_in_use: WorkspacesInUse,
        server_reader: ServerReader,
        latest_versions: LatestVersions,
    ) -> None:
        self.table = context.table
        self.workspaces_in_use = workspaces_in_use
        self.server_reader = server_reader
        self.latest_versions = latest_versions

    # --- creating -------------------------------------------------------------------------------

    def create_mcp_server_version(
        self,
        server_json: dict[str, Any],
        source: str | None = None,
        status: MCPStatus | None = None,
        tools: Any = NOT_SET,
        created_by: str | None = None,
        connect_options: dict[str, ConnectOptionSettings] | None = None,
    ) -> MCPServerVersion:
        name, version = server_json.get("name"), server_json.get("version")
        if not name or not version:
            raise invalid("server_json must contain 'name' and 'version' keys")
        validate_mcp_server_name(name)
        server_json = checked_server_json(server_json)
        precedence(version, "server_json.version")
        status = status or MCPStatus.DRAFT
        validate_mcp_initial_status(status)
        content: Content = {
            "server_json": server_json,
            "tools": checked_tools(None if tools is NOT_SET else tools),
            "connect_options": checked_connect_options(connect_options),
        }
        place, now = self.server_reader.place(name), get_current_time_millis()
        item = new_version(
            place, version, now, status=MCPStatus(status).value, source=source, by=created_by
        )
        self.workspaces_in_use.note(place.workspace)
        stored = stored_content(place.version_key(version), content)
        created = Version(place, {**item, **stored.attributes}, content)
        try:
            server = self._add(created, stored.parts, new_meta(place, now, created_by))
        except MlflowException:
            self.table.write(large_values.removal(created.item, CONTENT))
            raise
        return created.entity(server.aliases_of(version))

    def _add(self, version: Version, parts: list[Put], new_server: Item) -> Server:
        """Write a new version, and its server if that does not exist."""

        def decide(server: Server) -> Change:
            self.table.write(parts)
            change = self.latest_versions.status_change(server, None, version.latest())
            change.writes.insert(0, Put(version.item, condition=ABSENT))
            return change

        def attempt() -> Server:
            try:
                return self.server_reader.servers.change(version.place, decide, NoServerError)
            except NoServerError:
                change = Change() if parts else decide(Server(version.place, new_server))
            except TransactionCancelled as cancelled:
                if cancelled.refused(1):
                    raise version_exists(version.place.name, version.version) from cancelled
                raise
            meta = {**new_server, **change.set}
            try:
                server = self.server_reader.servers.create(version.place, meta, change.writes)
            except NameTakenError as taken:
                raise Outdated from taken
            if parts:  # they can be written now that the server exists
                raise Outdated
            return server

        return optimistically(f"MCP server '{version.place.name}'", attempt)

    # --- reading --------------------------------------------------------------------------------

    def get_mcp_server_version(self, name: str, version: str) -> MCPServerVersion:
        place = self.server_reader.place(name)
        if find_precedence(version) is None:
            raise version_not_found(name, version)
        key = place.version_key(version)
        items = self.table.get_many([place.key, key])
        server = self.server_reader.servers.seen(place, items.get(place.key))
        found = self.server_reader.versions_in(items, {(place, version): key})
        if server is None or not found:
            raise version_not_found(name, version)
        return found[place, version].entity(server.aliases_of(version))

    def get_mcp_server_version_by_alias(self, name: str, alias: str) -> MCPServerVersion:
        if alias == LATEST_ALIAS:
            return self.get_latest_mcp_server_version(name)
        server = self.server_reader.servers.find(self.server_reader.place(name))
        if server is None or alias not in server.aliases:
            raise alias_not_found(name, alias)
        return self._version_of(server, server.aliases[alias])

    def get_latest_mcp_server_version(self, name: str) -> MCPServerVersion:
        server = self.server_reader.get_server(name, no_server)
        if server.latest is None:
            raise no_latest(name)
        return self._version_of(server, server.latest.version)

    def _version_of(self, server: Server, version: str) -> MCPServerVersion:
        found = self.server_reader.read_versions([(server, version)]).get((server.place, version))
        if found is None:
            raise version_not_found(server.name, version)
        return found.entity(server.aliases_of(version))

    # --- changing -------------------------------------------------------------------------------

    def update_mcp_server_version(
        self,
        name: str,
        version: str,
        status: Any = NOT_SET,
        tools: Any = NOT_SET,
        last_updated_by: str | None = None,
        connect_options: Any = NOT_SET,
    ) -> MCPServerVersion:
        new_content: Content = {}
        if tools is not NOT_SET:
            new_content["tools"] = checked_tools(tools)
        if connect_options is not NOT_SET:
            new_content["connect_options"] = checked_connect_options(connect_options)
        place, now = self.server_reader.place(name), get_current_time_millis()
        drafts = ContentDrafts(self.table)
        before = after = Version(place, {})

        def decide(server: Server) -> Change:
            nonlocal before, after
            (before,) = self.server_reader.with_content(
                [self.server_reader.get_version(place, version)]
            )
            if status is None:
                raise invalid("status cannot be null; omit the field to leave it unchanged")
            new_status = before.status
            if status is not NOT_SET:
                check_transition(MCPStatus(before.status), status)
                new_status = MCPStatus(status).value
            content = {**before.content, **new_content}
            stored = drafts.write(place.version_key(version), content) if new_content else {}
            update = update_at(now, last_updated_by, status=new_status, **stored)
            after = replace(before, item=update.apply(before.item), content=content)
            if new_status == before.status:
                return Change(writes=[Patch(place.version_key(version), update)])
            change = self.latest_versions.status_change(server, before, after.latest())
            if new_status == DELETED:
                change.writes += _deletion(before, now)
                if server.refers_to(version):
                    change.set[DELETED_VERSION + version] = True
            else:
                change.writes.insert(0, Patch(place.version_key(version), update))
            return change

        try:
            server = self.server_reader.servers.change(
                place, decide, lambda _: version_not_found(name, version)
            )
        except MlflowException:
            drafts.remove()
            raise
        drafts.remove(except_for=() if after.is_deleted else part_keys(after.item))
        if new_content:
            self.table.write(large_values.removal(before.item, CONTENT))
        return after.entity(server.aliases_of(version))

    def delete_mcp_server_version(self, name: str, version: str) -> None:
        place, now = self.server_reader.place(name), get_current_time_millis()

        def decide(server: Server) -> Change:
            before = self.server_reader.find_version(place, version)
            if before is None:
                raise version_not_found(name, version)
            check_transition(MCPStatus(before.status), MCPStatus.DELETED)
            (before,) = self.server_reader.with_content([before])
            change = self.latest_versions.status_change(server, before, before.latest(DELETED))
            aliases = {*server.aliases_of(version)}
            change.remove += [ALIAS + alias for alias in sorted(aliases)]
            remove_endpoints(change, server, server.endpoints_of(aliases, version))
            change.writes = [*_deletion(before, now), *change.writes]
            return change

        self.server_reader.servers.change(place, decide, lambda _: version_not_found(name, version))


def _deletion(version: Version, now: int) -> list[Put | Delete]:
    """The writes that delete a version: a tombstone keeps its number from being used again."""
    beside = [*version.long_tag_keys, *part_keys(version.item)]
    return [Put(tombstone(version.item, now)), *(Delete(key) for key in beside)]
