"""Where an MCP server lies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mlflow_dynamodbstore.keys import mcp as mcp_keys
from mlflow_dynamodbstore.mcp.semver import precedence
from mlflow_dynamodbstore.shared.names.attributes import NAME, REVISION, named
from mlflow_dynamodbstore.shared.names.tags import TagStore
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key

MAX_SERVER_TAGS = 16 * 1024
MAX_VERSION_TAGS = 64 * 1024


class ServerPlace(NamedTuple):
    """The partition of a server, and how it is listed: see ``claims.NamedPartition``."""

    name: str
    workspace: str

    @property
    def pk(self) -> str:
        return mcp_keys.server_pk(self.name, self.workspace)

    @property
    def key(self) -> Key:
        """The key of META."""
        return mcp_keys.server_key(self.name, self.workspace)

    @property
    def guard(self) -> Item:
        """The item that lists the server in its workspace."""
        return named(mcp_keys.server_name_guard(self.name, self.workspace), NAME, self.name)

    def listing(self, meta: Item) -> Item:
        """The guard, which repeats nothing of META."""
        del meta
        return self.guard

    def version_key(self, version: str) -> Key:
        """The key of a version; raises when it is not a semantic version."""
        return Key(self.pk, mcp_keys.server_version(precedence(version), version))

    def endpoint_key(self, endpoint_id: str) -> Key:
        return Key(self.pk, mcp_keys.server_endpoint(endpoint_id))

    def endpoint_entry(self, endpoint_id: str) -> Item:
        """The item in the workspace's partition that names an endpoint's server."""
        key = mcp_keys.workspace_endpoint(endpoint_id, self.workspace)
        return {"PK": key.pk, "SK": key.sk, "server": self.name}

    def tagging(self, version: str | None = None) -> TagStore:
        """How the tags of the server, or of one of its versions, are laid out."""
        if version is None:
            return TagStore(
                lambda key: Key(self.pk, mcp_keys.server_tag(key)), MAX_SERVER_TAGS, all_apart=False
            )
        place = (precedence(version), version)
        return TagStore(
            lambda key: Key(self.pk, mcp_keys.server_version_tag(*place, key)),
            MAX_VERSION_TAGS,
            all_apart=False,
        )

    # --- for claims -----------------------------------------------------------------------------

    def links(self, items: Iterable[Item]) -> list[Item]:
        """The entries of the endpoints among these items."""
        return [
            self.endpoint_entry(str(mcp_keys.server_endpoint_of(item["SK"])))
            for item in items
            if item["SK"] in mcp_keys.SERVER_ENDPOINTS
        ]

    def text_entries(self, table: Table) -> list[Item]:
        """None: names of servers are not indexed."""
        del table
        return []

    def stored_text_entries(self, table: Table) -> list[Key]:
        """None: names of servers are not indexed."""
        del table
        return []

    def moved(self, item: Item, now: int | None) -> Item:
        del now  # versions and endpoints have not changed
        return {**item, "PK": self.pk}

    def moved_meta(self, meta: Item, now: int | None) -> Item:
        stamp = {} if now is None else {"updated": now}
        return {**meta, "PK": self.pk, NAME: self.name, REVISION: meta[REVISION] + 1, **stamp}


def name_of_guard(guard: Item) -> str:
    """The name of the server that a guard lists."""
    name = mcp_keys.guarded_server_of(guard["SK"])
    return str(guard[NAME]) if name is None else name
