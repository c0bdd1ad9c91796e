"""Servers, versions and endpoints as read from the table, and as MLflow shows them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from mlflow.entities.mcp_access_endpoint import MCPAccessEndpoint
from mlflow.entities.mcp_server import MCPRemoteTransportType, MCPServer, MCPStatus, MCPTool
from mlflow.entities.mcp_server_version import ConnectOptionSettings, MCPServerVersion

from mlflow_dynamodbstore.keys import mcp as mcp_keys
from mlflow_dynamodbstore.mcp.contents import Content
from mlflow_dynamodbstore.mcp.items import (
    ACTIVE_VERSIONS,
    ALIAS,
    DELETED,
    DELETED_VERSION,
    ENDPOINT,
    LATEST,
    LATEST_ALIAS,
    Latest,
    Target,
    prefixed,
    short_shown,
    shown_of,
)
from mlflow_dynamodbstore.mcp.places import ServerPlace
from mlflow_dynamodbstore.mcp.semver import precedence
from mlflow_dynamodbstore.shared.names.attributes import REVISION
from mlflow_dynamodbstore.shared.names.tags import LONG_TAG, TAG, Tags
from mlflow_dynamodbstore.shared.search import filters
from mlflow_dynamodbstore.table.values import Item, Key

CREATED, UPDATED = "created_at", "last_updated_at"
"""The names of the times in MLflow's filters and orders."""
PRECEDENCE = "precedence"


@dataclass(frozen=True)
class Server:
    """A server, read from its META."""

    place: ServerPlace
    item: Item
    long_tags: Tags = field(default_factory=dict)
    """The tags that META only names, once they have been read."""

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def revision(self) -> int:
        return int(self.item[REVISION])

    @property
    def active_versions(self) -> int:
        return int(self.item[ACTIVE_VERSIONS])

    @cached_property
    def latest(self) -> Latest | None:
        return Latest.of(self.item[LATEST]) if LATEST in self.item else None

    @cached_property
    def aliases(self) -> dict[str, str]:
        return dict(sorted(prefixed(self.item, ALIAS).items()))

    @cached_property
    def targets(self) -> dict[str, Target]:
        """The target of each endpoint, by the endpoint's id."""
        found = prefixed(self.item, ENDPOINT)
        return {endpoint_id: Target(*found[endpoint_id]) for endpoint_id in sorted(found)}

    @cached_property
    def deleted_versions(self) -> set[str]:
        """The deleted versions that an alias or an endpoint still names."""
        return {*prefixed(self.item, DELETED_VERSION)}

    @cached_property
    def resolved_versions(self) -> dict[str, str]:
        """The version that each endpoint resolves to, by the endpoint's id, where there is one."""
        found = {endpoint_id: self._resolve(target) for endpoint_id, target in self.targets.items()}
        return {endpoint_id: version for endpoint_id, version in found.items() if version}

    def _resolve(self, target: Target) -> str | None:
        if target.alias == LATEST_ALIAS:
            return self.latest.version if self.latest else None
        version = target.version or self.aliases.get(str(target.alias))
        return None if version in self.deleted_versions else version

    def aliases_of(self, version: str) -> list[str]:
        """The aliases of a version."""
        return [alias for alias, to in self.aliases.items() if to == version]

    def endpoints_of(self, aliases: set[str], version: str | None = None) -> list[str]:
        """The ids of the endpoints whose target is one of these aliases, or a version."""
        return [
            endpoint_id
            for endpoint_id, target in self.targets.items()
            if target.alias in aliases or (version is not None and target.version == version)
        ]

    def refers_to(self, version: str) -> bool:
        """Whether an alias or an endpoint names a version."""
        return version in self.aliases.values() or any(
            target.version == version for target in self.targets.values()
        )

    @cached_property
    def tags(self) -> Tags:
        return {**prefixed(self.item, TAG), **self.long_tags}

    @property
    def long_tag_keys(self) -> dict[Key, str]:
        """The keys of the tags that META only names."""
        store = self.place.tagging()
        return {store.key_of(key): key for key in prefixed(self.item, LONG_TAG)}

    @property
    def needs_latest(self) -> bool:
        """Whether the latest version must be read to show the server."""
        return self.latest is not None and self.latest.shown is None

    def values(self, kind: str, name: str) -> Sequence[Any]:
        """The values that a search compares: see ``search.filters.Searchable``."""
        value: Any
        if kind == filters.TAG:
            value = self.tags.get(name)
        elif name == "name":
            value = self.name
        elif name == "status":
            value = self.latest.status if self.latest else None
        elif name == "has_access_endpoints":
            value = bool(self.resolved_versions)
        else:
            value = self.item.get(_ATTRIBUTES[name])
        return () if value is None else (value,)

    def entity(
        self, endpoints: Iterable[MCPAccessEndpoint], latest: Version | None = None
    ) -> MCPServer:
        """The server as MLflow shows it; ``latest`` is its latest version if that was read."""
        item = self.item
        shown: Mapping[str, Any] = {}
        if self.latest is not None:
            shown = self.latest.shown or (shown_of(latest.content["server_json"]) if latest else {})
        description = item.get("description")
        return MCPServer(
            name=self.name,
            display_name=item.get("display_name"),
            description=shown.get("description") if description is None else description,
            icons=_icons(item.get("icons"), shown.get("icons")),
            workspace=self.place.workspace,
            status=MCPStatus(self.latest.status) if self.latest else None,
            tags=dict(self.tags),  # type: ignore[arg-type]  # a value may be None
            aliases=dict(self.aliases),
            access_endpoints=list(endpoints),
            latest_version=self.latest.version if self.latest else None,
            **_authors(item),
        )


@dataclass(frozen=True)
class Version:
    """A version of a server."""

    place: ServerPlace
    item: Item
    content: Content = field(default_factory=dict)
    """The content, once it has been read."""
    long_tags: Tags = field(default_factory=dict)

    @cached_property
    def version(self) -> str:
        return str(mcp_keys.server_version_of(self.item["SK"]).version)

    @property
    def status(self) -> str:
        return str(self.item["status"])

    @property
    def is_deleted(self) -> bool:
        return self.status == DELETED

    @cached_property
    def tags(self) -> Tags:
        return {**prefixed(self.item, TAG), **self.long_tags}

    @property
    def long_tag_keys(self) -> dict[Key, str]:
        """The keys of the tags that the version's item only names."""
        store = self.place.tagging(self.version)
        return {store.key_of(key): key for key in prefixed(self.item, LONG_TAG)}

    def latest(self, status: str | None = None) -> Latest:
        """This version as the latest one, in its own or another status."""
        shown = short_shown(self.content["server_json"])
        return Latest(self.version, status or self.status, self.item["created"], shown)

    def values(self, kind: str, name: str) -> Sequence[Any]:
        """The values that a search compares: see ``search.filters.Searchable``."""
        del kind  # versions are not searched by tags
        if name == "name":
            return (self.place.name,)
        if name == "version":
            return (self.version,)
        if name == PRECEDENCE:
            return (precedence(self.version),)
        return (self.item[_ATTRIBUTES[name]],)

    def entity(self, aliases: list[str]) -> MCPServerVersion:
        """The version as MLflow shows it."""
        tools = self.content["tools"]
        options = self.content["connect_options"] or {}
        return MCPServerVersion(
            name=self.place.name,
            version=self.version,
            server_json=self.content["server_json"],
            status=MCPStatus(self.status),
            tools=None if tools is None else [MCPTool.from_dict(tool) for tool in tools],
            aliases=aliases,
            tags=dict(self.tags),  # type: ignore[arg-type]  # a value may be None
            connect_options={k: ConnectOptionSettings(**v) for k, v in options.items()},
            source=self.item.get("source"),
            workspace=self.place.workspace,
            **_authors(self.item),
        )


@dataclass(frozen=True)
class Endpoint:
    """An access endpoint of a server that resolves to a version."""

    server: Server
    id: str
    item: Item
    status: str | None = None
    """The status of its resolved version, if a search needs it."""

    @property
    def target(self) -> Target:
        return self.server.targets[self.id]

    @property
    def resolved_version(self) -> str:
        return self.server.resolved_versions[self.id]

    def values(self, kind: str, name: str) -> Sequence[Any]:
        """The values that a search compares: see ``search.filters.Searchable``."""
        del kind  # endpoints have no tags
        if name == "id":
            return (self.id,)
        if name == "server_name":
            return (self.server.name,)
        if name == "status":
            return () if self.status is None else (self.status,)
        return (self.item[_ATTRIBUTES[name]],)

    def entity(self, resolved: MCPServerVersion | None) -> MCPAccessEndpoint:
        """The endpoint as MLflow shows it, with its resolved version."""
        return MCPAccessEndpoint(
            id=self.id,
            server_name=self.server.name,
            url=self.item["url"],
            transport_type=MCPRemoteTransportType(self.item["transport"]),
            server_version=self.target.version,
            server_alias=self.target.alias,
            resolved_version=resolved,
            workspace=self.server.place.workspace,
            **_authors(self.item),
        )


_ATTRIBUTES = {
    "display_name": "display_name",
    "status": "status",
    "transport_type": "transport",
    CREATED: "created",
    UPDATED: "updated",
}


def _authors(item: Item) -> dict[str, Any]:
    return {
        "created_by": item.get("created_by"),
        "last_updated_by": item.get("updated_by"),
        "creation_timestamp": item["created"],
        "last_updated_timestamp": item["updated"],
    }


def _icons(own: str | None, of_version: Any) -> list[dict[str, Any]] | None:
    """The icons of a server: its own, and those of its latest version that have other themes.

    A server whose own list is empty shows none.
    """
    icons = None if own is None else json.loads(own)
    if icons == []:
        return []
    shown = [{**icon, "source": "server"} for icon in icons or []]
    themes = {icon.get("theme") for icon in shown}
    shown += [
        {**icon, "source": "version"}
        for icon in of_version or []
        if isinstance(icon, dict) and icon.get("theme") not in themes
    ]
    return shown or None
