"""Keys of the registry of MCP servers: a partition for each server.

Versions sort by precedence: see :mod:`mlflow_dynamodbstore.mcp.semver`.
"""

from __future__ import annotations

from typing import NamedTuple

from mlflow_dynamodbstore.keys.access import workspace_of, workspace_pk
from mlflow_dynamodbstore.keys.base import (
    DEFAULT_WORKSPACE,
    ID,
    KEY,
    LONE_NAME,
    PARTITION_NAME,
    Range,
    children,
    in_workspace,
    join,
    key_text,
    pieces_of,
    starting_text,
)
from mlflow_dynamodbstore.keys.encoding import bounded, is_cut
from mlflow_dynamodbstore.keys.section_types import ItemDescription, KeySection, described
from mlflow_dynamodbstore.table.values import Item, Key

SERVER_META = "S#META"
SERVER_VERSIONS = children("S#V")
"""All versions of a server in order of precedence, each followed by its tags."""
SERVER_ENDPOINTS = children("S#EP")
SERVER_NAMES = children("MCPNAME")
"""In a workspace's partition: the guards of server names."""
WORKSPACE_ENDPOINTS = children("MCPEP")
"""In a workspace's partition: which server has an endpoint, by the endpoint's id."""

# MLflow's limit for a version is 128 characters, whose precedence is shorter than PRECEDENCE. The
# key of a version's tag shares its sort key with both.
PRECEDENCE = 470
VERSION = 160
VERSION_TAG = 280


class VersionKey(NamedTuple):
    """The parts of a version's sort key; None for text that was cut."""

    precedence: str | None
    version: str | None


def server_pk(name: str, workspace: str = DEFAULT_WORKSPACE) -> str:
    """The partition of a server."""
    return in_workspace("MCP", workspace, bounded(name, PARTITION_NAME))


def server_key(name: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """The whole key of a server's own item."""
    return Key(server_pk(name, workspace), SERVER_META)


def server_version(precedence: str, version: str) -> str:
    """A version of a server."""
    return join("S#V", bounded(precedence, PRECEDENCE), bounded(version, VERSION))


def server_version_of(sk: str) -> VersionKey:
    """The version that a sort key belongs to."""
    precedence, version = pieces_of(sk, "S", "V")[:2]
    return VersionKey(key_text(precedence), key_text(version))


def server_versions_from(precedence: str, *, descending: bool = False) -> Range:
    """The versions from a precedence on, upwards or ``descending``."""
    here = children(join("S#V", bounded(precedence, PRECEDENCE)))
    low, high = SERVER_VERSIONS
    return Range(low, here.high) if descending else Range(here.low, high)


def server_version_tag(precedence: str, version: str, key: str) -> str:
    """A tag of a version."""
    return join(server_version(precedence, version), "TAG", bounded(key, VERSION_TAG))


def server_tag(key: str) -> str:
    """A tag of a server."""
    return join("S#TAG", bounded(key, KEY))


def server_endpoint(endpoint_id: str) -> str:
    """An access endpoint of a server."""
    return join("S#EP", bounded(endpoint_id, ID))


def server_endpoint_of(sk: str) -> str | None:
    """The id of an endpoint; None when it was cut."""
    return key_text(pieces_of(sk, "S", "EP")[0])


def server_name_guard(name: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """The item that keeps a server's name unique and lists it in its workspace."""
    return Key(workspace_pk(workspace), join("MCPNAME", bounded(name, LONE_NAME)))


def server_names_starting(text: str) -> Range:
    """The guards of server names that begin with a text; for a long text, of others too."""
    return starting_text("MCPNAME", text, LONE_NAME)


def guarded_server_of(sk: str) -> str | None:
    """The name that a guard protects; None when it was cut."""
    return key_text(pieces_of(sk, "MCPNAME")[0])


def workspace_endpoint(endpoint_id: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """The item that tells which server of a workspace has an endpoint."""
    return Key(workspace_pk(workspace), join("MCPEP", bounded(endpoint_id, ID)))


def workspace_endpoints_from(endpoint_id: str, *, descending: bool = False) -> Range:
    """The entries of endpoints from an id on, upwards or ``descending``."""
    here = workspace_endpoint(endpoint_id).sk
    low, high = WORKSPACE_ENDPOINTS
    return Range(low, here) if descending else Range(here, high)


def workspace_endpoint_of(sk: str) -> str | None:
    """The id of an endpoint; None when it was cut."""
    return key_text(pieces_of(sk, "MCPEP")[0])


# --- what an item is ----------------------------------------------------------------------------


def _in_server(pk: str, words: list[str], _item: Item) -> ItemDescription | None:
    meta, kind = Key(pk, SERVER_META), words[1]
    if kind == "META":
        return ItemDescription("MCP server")
    if kind == "V":
        return _in_version(meta, words)
    return described({"TAG": "MCP server tag", "EP": "MCP access endpoint"}.get(kind), meta)


def _in_version(meta: Key, words: list[str]) -> ItemDescription:
    own = words[:4]
    if words == own:
        return ItemDescription("MCP server version", (meta,))
    return ItemDescription("MCP server version tag", (meta, Key(meta.pk, join(*own))))


def _name(pk: str, words: list[str], item: Item) -> ItemDescription:
    name = str(item["name"]) if is_cut(words[1]) else str(key_text(words[1]))
    return ItemDescription("MCP server name", (server_key(name, str(workspace_of(pk))),))


def _endpoint_entry(pk: str, words: list[str], item: Item) -> ItemDescription:
    meta = server_key(str(item["server"]), str(workspace_of(pk)))
    endpoint = Key(meta.pk, join("S#EP", words[1]))
    return ItemDescription("Entry of an MCP access endpoint", (meta, endpoint))


SECTION = KeySection(
    partitions={"MCP": _in_server},
    in_workspace={"MCPNAME": _name, "MCPEP": _endpoint_entry},
)
