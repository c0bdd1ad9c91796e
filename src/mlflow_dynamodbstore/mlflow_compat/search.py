"""Parts of MLflow's parsers of filters and orders."""

from __future__ import annotations

import re
from typing import Any

from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.mlflow_compat.names import private

SEARCH = "mlflow.utils.search_utils"
_QUOTED_OR_VERSION = re.compile(
    r"""('[^']*'|"[^"]*"|`[^`]*`)|(?<![\w.])version(?=\s*(?:[=!<>]|I?LIKE\b))"""
)


def _order(order_by: str) -> tuple[str, bool]:
    """What to order by, and whether ascending."""
    parsed = re.fullmatch(r"\s*(`[^`]+`|\S+)(\s+(asc|desc))?\s*", order_by, re.IGNORECASE)
    if parsed is None:
        raise MlflowException.invalid_parameter_value(
            f"Invalid order_by clause '{order_by}'. Could not be parsed."
        )
    return _plain(parsed[1]), (parsed[3] or "").lower() != "desc"


def _plain(name: str) -> str:
    quoted = len(name) > 1 and name.startswith("`") and name.endswith("`")
    return name[1:-1] if quoted else name


def parse_search_filter(parser: Any, filter_string: str | None) -> list[dict[str, Any]]:
    """The terms of a filter. Numbers are numbers; MLflow up to 3.16 parses them as text."""
    terms: list[dict[str, Any]] = parser.parse_search_filter(filter_string)
    for term in terms:
        if term["type"] == "attribute" and term["key"] in parser.NUMERIC_ATTRIBUTES:
            term["value"] = _number(term["value"])
    return terms


def with_version_quoted(filter_string: str | None) -> str | None:
    """A filter in which ``version`` is a name: to parsers up to 3.16 it is a word of SQL."""
    if filter_string is None:
        return None
    return _QUOTED_OR_VERSION.sub(lambda found: found[1] or "`version`", filter_string)


def _number(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return int(value) if value.lstrip("+-").isdecimal() else float(value)


parse_order_by_string = private(SEARCH, "SearchUtils._parse_order_by_string", _order)
trim_backticks = private(SEARCH, "SearchTraceUtils._trim_backticks", _plain)
