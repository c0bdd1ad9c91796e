"""The items that make up an MCP server, built in one place.

A server's own item (META) says everything that a listing or a decision needs: times, description,
short tags, aliases, which version is the latest, and where each endpoint leads. Attributes with
user text in their name have a prefix:

- ``t:<key>`` and ``T:<key>``: tags, as in the model registry;
- ``a:<alias>``: the version that an alias leads to;
- ``e:<endpoint_id>``: what an endpoint leads to;
- ``d:<version>``: a deleted version that an alias or an endpoint still names.
"""

from __future__ import annotations

import json
import secrets
from typing import Any, NamedTuple

from mlflow.entities.mcp_server import MCPStatus

from mlflow_dynamodbstore.mcp.places import ServerPlace
from mlflow_dynamodbstore.mcp.semver import precedence
from mlflow_dynamodbstore.shared.names.attributes import NAME, REVISION, UID
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

ALIAS = "a:"
ENDPOINT = "e:"
DEAD = "d:"
LATEST = "latest"
ACTIVE_VERSIONS = "active"
"""Attribute of META: how many versions are active."""
LATEST_ALIAS = "latest"
"""The alias that nobody sets: it always leads to the latest version."""

ACTIVE, DELETED = MCPStatus.ACTIVE.value, MCPStatus.DELETED.value

MAX_SHOWN = 2048


class Target(NamedTuple):
    """What an endpoint leads to: a version, or whatever an alias leads to."""

    version: str | None = None
    alias: str | None = None

    def stored(self) -> list[str | None]:
        return list(self)


class Latest(NamedTuple):
    """The latest version of a server, with what the server shows of it.

    Of a version with long texts nothing is repeated here (``shown`` is None), and it is read.
    """

    version: str
    status: str
    created: int
    shown: dict[str, Any] | None

    @property
    def rank(self) -> tuple[bool, str, int, str]:
        """By which the latest is chosen: active ones first, then by precedence."""
        return self.status == ACTIVE, precedence(self.version), self.created, self.version

    def stored(self) -> Item:
        shown = {} if self.shown is None else {"shown": json.dumps(self.shown)}
        return {"version": self.version, "status": self.status, "created": self.created, **shown}

    @classmethod
    def of(cls, stored: Item) -> Latest:
        shown = json.loads(stored["shown"]) if "shown" in stored else None
        return cls(stored["version"], stored["status"], stored["created"], shown)


def shown_of(server_json: dict[str, Any]) -> dict[str, Any]:
    """What a server shows of its latest version when it has nothing of its own."""
    return {name: server_json.get(name) for name in ("description", "icons")}


def short_shown(server_json: dict[str, Any]) -> dict[str, Any] | None:
    """The same where it is short enough to be repeated."""
    shown = shown_of(server_json)
    return shown if len(json.dumps(shown)) <= MAX_SHOWN else None


def new_meta(place: ServerPlace, now: int, by: str | None) -> Item:
    """The own item of a new server."""
    return {
        **_at(place.key),
        NAME: place.name,
        UID: secrets.token_hex(6),
        REVISION: 1,
        ACTIVE_VERSIONS: 0,
        **_origin(now, by),
    }


def new_version(
    place: ServerPlace, version: str, now: int, *, status: str, source: str | None, by: str | None
) -> Item:
    """The own item of a new version, without its content."""
    return {
        **_at(place.version(version)),
        "status": status,
        **given(source=source),
        **_origin(now, by),
    }


def tombstone(version: Item, now: int) -> Item:
    """What is left of a deleted version, so that nobody takes its number again."""
    kept = {name: version[name] for name in ("PK", "SK", "created")}
    return {**kept, "status": DELETED, "updated": now}


def new_endpoint(
    place: ServerPlace, endpoint_id: str, now: int, *, url: str, transport: str, by: str | None
) -> Item:
    """The own item of a new endpoint; META says where it leads."""
    return {
        **_at(place.endpoint(endpoint_id)),
        "url": url,
        "transport": transport,
        **_origin(now, by),
    }


def touched(now: int, by: str | None, **more: Any) -> Update:
    """What changing a version or an endpoint does to it in any case, and what else is given."""
    removed = () if by is not None else ("updated_by",)
    return Update(set={"updated": now, **given(updated_by=by, **more)}, remove=removed)


def given(**attributes: Any) -> Item:
    """Attributes that have a value."""
    return {name: value for name, value in attributes.items() if value is not None}


def prefixed(item: Item, prefix: str) -> dict[str, Any]:
    """The attributes whose name begins so, by what follows."""
    size = len(prefix)
    return {name[size:]: value for name, value in item.items() if name.startswith(prefix)}


def _at(key: Key) -> Item:
    return {"PK": key.pk, "SK": key.sk}


def _origin(now: int, by: str | None) -> Item:
    return {"created": now, "updated": now, **given(created_by=by, updated_by=by)}
