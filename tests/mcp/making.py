"""Servers for tests."""

from __future__ import annotations

import random
from typing import Any

from mlflow.entities.mcp_server import MCPStatus, MCPTool
from mlflow.entities.mcp_server_version import MCPServerVersion

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.stores import everything_in

FILES = "io.github.ada/files"
MAIL = "io.github.ada/mail"
ACTIVE, DRAFT = MCPStatus.ACTIVE, MCPStatus.DRAFT
DEPRECATED, DELETED = MCPStatus.DEPRECATED, MCPStatus.DELETED


def add(
    store: DynamoDBTrackingStore,
    version: str = "1.0.0",
    name: str = FILES,
    *,
    status: MCPStatus = DRAFT,
    tools: list[MCPTool] | None = None,
    **more: Any,
) -> MCPServerVersion:
    """Create a version; other keywords go into its ``server.json``."""
    server_json = {"name": name, "version": version, **more}
    return store.create_mcp_server_version(server_json, status=status, tools=tools)


def noise(size: int, seed: int = 0) -> str:
    """A text that cannot be compressed."""
    return random.Random(seed).randbytes(size // 2).hex()


def keys_of(table: Table) -> list[tuple[str, str]]:
    """The keys of all items of MCP servers."""
    found = [(str(item["PK"]), str(item["SK"])) for item in everything_in(table)]
    return sorted(key for key in found if "MCP" in key[0] or key[1].startswith("MCP"))


def sort_keys_of(table: Table) -> list[str]:
    """The sort keys of all items of MCP servers."""
    return [sk for _, sk in keys_of(table)]
