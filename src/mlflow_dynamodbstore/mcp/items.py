"""The items of an MCP server.

A server's own item (META) has everything that a listing or a decision needs: times, description,
short tags, aliases, the latest version, and the target of each endpoint. Attributes with user text
in their names have a prefix:

- ``t:<key>`` and ``T:<key>``: tags, as in the model registry;
- ``a:<alias>``: the version of an alias;
- ``e:<endpoint_id>``: the target of an endpoint;
- ``d:<version>``: a deleted version that an alias or an endpoint still names.
"""

from __future__ import annotations

import json
import secrets
from typing import Any, NamedTuple

from boto3.dynamodb.conditions import Attr
from mlflow.entities.mcp_server import MCPStatus

from mlflow_dynamodbstore.mcp.places import ServerPlace
from mlflow_dynamodbstore.mcp.semver import precedence
from mlflow_dynamodbstore.shared.names.attributes import NAME, REVISION, UID
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

ALIAS = "a:"
ENDPOINT = "e:"
DELETED_VERSION = "d:"
LATEST = "latest"
ACTIVE_VERSIONS = "active"
"""Attribute of META: the number of active versions."""
LATEST_ALIAS = "latest"
"""The alias of the latest version, which nobody can set."""

ACTIVE, DELETED = MCPStatus.ACTIVE.value, MCPStatus.DELETED.value
NOT_DELETED = Attr("status").exists() & Attr("status").ne(DELETED)
"""A filter on items below a server's versions: the versions that are not deleted."""

MAX_SHOWN = 2048


class Target(NamedTuple):
    """The target of an endpoint: a version or an alias."""

    version: str | None = None
    alias: str | None = None

    def stored(self) -> list[str | None]:
        return list(self)


class Latest(NamedTuple):
    """The latest version of a server, with what the server shows of it.

    When that is long, ``shown`` is None, and the version itself must be read.
    """

    version: str
    status: str
    created: int
    shown: dict[str, Any] | None

    @property
    def order(self) -> tuple[bool, str, int, str]:
        """The sort key by which the latest version is chosen: active ones win, then precedence."""
        return self.status == ACTIVE, precedence(self.version), self.created, self.version

    def stored(self) -> Item:
        shown = {} if self.shown is None else {"shown": json.dumps(self.shown)}
        return {"version": self.version, "status": self.status, "created": self.created, **shown}

    @classmethod
    def of(cls, stored: Item) -> Latest:
        shown = json.loads(stored["shown"]) if "shown" in stored else None
        return cls(stored["version"], stored["status"], stored["created"], shown)


def shown_of(server_json: dict[str, Any]) -> dict[str, Any]:
    """What a server shows of its latest version where it has no values of its own."""
    return {name: server_json.get(name) for name in ("description", "icons")}


def short_shown(server_json: dict[str, Any]) -> dict[str, Any] | None:
    """The same, or None when it is too long to be copied into META."""
    shown = shown_of(server_json)
    return shown if len(json.dumps(shown)) <= MAX_SHOWN else None


def new_meta(place: ServerPlace, now: int, by: str | None) -> Item:
    """The own item of a new server."""
    return {
        **_new_item(place.key, now, by),
        NAME: place.name,
        UID: secrets.token_hex(6),
        REVISION: 1,
        ACTIVE_VERSIONS: 0,
    }


def new_version(
    place: ServerPlace, version: str, now: int, *, status: str, source: str | None, by: str | None
) -> Item:
    """The own item of a new version, without its content."""
    item = _new_item(place.version_key(version), now, by)
    return {**item, "status": status, **given(source=source)}


def tombstone(version: Item, now: int) -> Item:
    """The item of a deleted version, which keeps its number from being used again."""
    kept = {name: version[name] for name in ("PK", "SK", "created")}
    return {**kept, "status": DELETED, "updated": now}


def new_endpoint(
    place: ServerPlace, endpoint_id: str, now: int, *, url: str, transport: str, by: str | None
) -> Item:
    """The own item of a new endpoint; its target is in META."""
    item = _new_item(place.endpoint_key(endpoint_id), now, by)
    return {**item, "url": url, "transport": transport}


def update_at(now: int, by: str | None, **more: Any) -> Update:
    """The update of a changed version or endpoint: time, author, and other given attributes."""
    removed = () if by is not None else ("updated_by",)
    return Update(set={"updated": now, **given(updated_by=by, **more)}, remove=removed)


def given(**attributes: Any) -> Item:
    """The attributes that are not None."""
    return {name: value for name, value in attributes.items() if value is not None}


def prefixed(item: Item, prefix: str) -> dict[str, Any]:
    """The attributes whose names begin with a prefix, by the rest of their names."""
    size = len(prefix)
    return {name[size:]: value for name, value in item.items() if name.startswith(prefix)}


def _new_item(key: Key, now: int, by: str | None) -> Item:
    times = {"created": now, "updated": now}
    return {"PK": key.pk, "SK": key.sk, **times, **given(created_by=by, updated_by=by)}
