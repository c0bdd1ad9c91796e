"""Checking what is to be written, with MLflow's own validators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mlflow.entities.mcp_server import VALID_STATUS_TRANSITIONS, MCPStatus, MCPTool
from mlflow.store.tracking import SEARCH_MAX_RESULTS_THRESHOLD

from mlflow_dynamodbstore.mlflow_compat.validation import (
    strip_mcp_icon_response_fields,
    validate_mcp_icon_payloads,
    validate_mcp_tool_payloads,
)
from mlflow_dynamodbstore.shared.refusals import invalid

Icons = list[dict[str, Any]]


def checked_icons(icons: Icons | None, field: str = "icons") -> Icons | None:
    """Icons without the fields that MLflow adds when it shows them."""
    written: Icons | None = strip_mcp_icon_response_fields(icons, field)
    validate_mcp_icon_payloads(written, field)
    return written


def checked_server_json(server_json: dict[str, Any]) -> dict[str, Any]:
    """A ``server.json`` with checked icons; the rest of it is kept as it is."""
    if "icons" not in server_json:
        return server_json
    return {**server_json, "icons": checked_icons(server_json["icons"], "server_json.icons")}


def checked_tools(tools: list[MCPTool] | None) -> list[dict[str, Any]] | None:
    """Tools as stored."""
    validate_mcp_tool_payloads(tools, "tools")
    if tools is None:
        return None
    if not all(isinstance(tool, MCPTool) for tool in tools):
        raise invalid("tools must be a list of MCPTool")
    written = [
        replace(tool, icons=checked_icons(tool.icons, f"tools[{n}].icons"))
        for n, tool in enumerate(tools)
    ]
    return [tool.to_dict() for tool in written]


def checked_connect_options(options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Connect options as stored."""
    if options is None:
        return None
    return {name: {"hidden": settings.hidden} for name, settings in options.items()}


def check_transition(current: MCPStatus, new: MCPStatus) -> None:
    """Refuse a status that MLflow does not allow after the current one."""
    allowed = VALID_STATUS_TRANSITIONS.get(current, set())
    if new not in allowed:
        raise invalid(
            f"Invalid status transition from '{current}' to '{new}'. "
            f"Allowed transitions: {sorted(str(status) for status in allowed)}"
        )


def check_url(url: object) -> None:
    """Refuse a URL that is not a text, or is blank."""
    if not isinstance(url, str) or not url.strip():
        raise invalid(f"MCP access endpoint url cannot be empty or just whitespace: {url!r}")


def check_max_results(max_results: int | None) -> None:
    """Refuse a page size that is not positive, or too large."""
    supplied = f"Invalid value {max_results} for parameter 'max_results' supplied."
    if max_results is None or max_results < 1:
        raise invalid(f"{supplied} It must be a positive integer")
    if max_results > SEARCH_MAX_RESULTS_THRESHOLD:
        raise invalid(f"{supplied} It must be at most {SEARCH_MAX_RESULTS_THRESHOLD}")
