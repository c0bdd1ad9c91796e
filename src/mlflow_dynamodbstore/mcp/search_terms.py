"""Parsing the filters and orders of searches for MCP servers, versions and endpoints."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from mlflow.utils.search_utils import (
    SearchMCPAccessEndpointUtils,
    SearchMCPServerUtils,
    SearchMCPServerVersionUtils,
)

from mlflow_dynamodbstore.keys import mcp as mcp_keys
from mlflow_dynamodbstore.mcp.places import name_of_guard
from mlflow_dynamodbstore.mcp.records import CREATED, PRECEDENCE, UPDATED
from mlflow_dynamodbstore.mcp.semver import precedence
from mlflow_dynamodbstore.mlflow_compat.search import (
    parse_order_by_string,
    parse_search_filter,
    with_version_quoted,
)
from mlflow_dynamodbstore.shared.names.search import PARSED_KEPT, Filter, Guards
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE, TAG, Comparison
from mlflow_dynamodbstore.shared.search.ordering import Ordering, SortKey

NAME = "name"
SERVER_NAME = "server_name"
STATUS = "status"
VERSION = "version"

SERVERS = Guards(mcp_keys.server_names_starting, mcp_keys.server_name_guard, name_of_guard)

_ORDERED = {"=", "!=", ">", ">=", "<", "<="}
_ALL = _ORDERED | {"LIKE", "ILIKE", "IN", "NOT IN"}


# --- filters ------------------------------------------------------------------------------------


@lru_cache(maxsize=PARSED_KEPT)
def server_filter(filter_string: str | None) -> Filter:
    """The filter of a search for servers."""
    terms = _terms(SearchMCPServerUtils, filter_string, {ATTRIBUTE, TAG})
    return Filter(tuple(map(_server_term, terms)))


@lru_cache(maxsize=PARSED_KEPT)
def version_filter(filter_string: str | None) -> Filter:
    """The filter of a search for versions."""
    terms = _terms(SearchMCPServerVersionUtils, with_version_quoted(filter_string), {ATTRIBUTE})
    return Filter(tuple(map(_version_term, terms)))


@lru_cache(maxsize=PARSED_KEPT)
def endpoint_filter(filter_string: str | None) -> Filter:
    """The filter of a search for endpoints."""
    return Filter(tuple(_terms(SearchMCPAccessEndpointUtils, filter_string, {ATTRIBUTE})))


def _terms(parser: Any, filter_string: str | None, kinds: set[str]) -> Iterable[Comparison]:
    for term in parse_search_filter(parser, filter_string) if filter_string else []:
        kind, name, comparator = term["type"], term["key"], term["comparator"]
        if kind not in kinds:
            raise invalid(f"Invalid filter type '{kind}'.")
        valid = _ORDERED if name in parser.NUMERIC_ATTRIBUTES and kind == ATTRIBUTE else _ALL
        if comparator not in valid:
            raise invalid(f"Invalid comparator '{comparator}' for {kind} '{name}'.")
        yield Comparison(kind, name, comparator, term["value"])


def _server_term(term: Comparison) -> Comparison:
    if (term.kind, term.name) != (ATTRIBUTE, "has_access_endpoints"):
        return term
    if term.comparator != "=" or term.value.lower() not in ("true", "false"):
        raise invalid("has_access_endpoints only supports '= true' or '= false'")
    return Comparison(ATTRIBUTE, term.name, "=", term.value.lower() == "true")


def _version_term(term: Comparison) -> Comparison:
    """Versions are equal when their texts are; other comparisons go by precedence."""
    if term.name != VERSION or term.comparator in ("=", "!="):
        return term
    if term.comparator not in _ORDERED:
        raise invalid(
            "version only supports semantic comparators '=', '!=', '<', '<=', '>', and '>='"
        )
    bound = precedence(term.value, "filter_string version")
    return Comparison(ATTRIBUTE, PRECEDENCE, term.comparator, bound)


# --- orders -------------------------------------------------------------------------------------


@lru_cache(maxsize=PARSED_KEPT)
def server_ordering(order_by: tuple[str, ...]) -> Ordering:
    """The order of a search for servers: by name where nothing else is asked for."""
    return _ordering(order_by, {NAME, CREATED, UPDATED}, [NAME])


@lru_cache(maxsize=PARSED_KEPT)
def version_ordering(order_by: tuple[str, ...]) -> Ordering:
    """The order of a search for versions: the oldest first where nothing else is asked for."""
    return _ordering(
        order_by, {VERSION, CREATED, UPDATED}, [CREATED, VERSION], {VERSION: PRECEDENCE}
    )


@lru_cache(maxsize=PARSED_KEPT)
def endpoint_ordering(order_by: tuple[str, ...]) -> Ordering:
    """The order of a search for endpoints: by id where nothing else is asked for."""
    return _ordering(order_by, {"id", SERVER_NAME, CREATED, UPDATED}, ["id"])


def _ordering(
    order_by: tuple[str, ...],
    valid: set[str],
    last: list[str],
    sorted_as: dict[str, str] | None = None,
) -> Ordering:
    wanted: dict[str, SortKey] = {}
    for clause in order_by:
        token, ascending = parse_order_by_string(clause)
        name = token.strip()
        if name not in valid:
            raise invalid(f"Invalid order_by key '{name}'. Valid keys: {sorted(valid)}")
        if name in wanted:
            raise invalid(f"Duplicate order_by field: '{name}'")
        wanted[name] = SortKey(ATTRIBUTE, (sorted_as or {}).get(name, name), ascending)
    named = {key.name for key in wanted.values()}
    rest = [SortKey(ATTRIBUTE, name) for name in last if name not in named]
    return Ordering((*wanted.values(), *rest))
