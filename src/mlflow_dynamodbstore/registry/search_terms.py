"""What a filter and an order of the registry ask for, checked in MLflow's words."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from mlflow.exceptions import MlflowException
from mlflow.prompt.constants import IS_PROMPT_TAG_KEY
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from mlflow.utils.search_utils import SearchModelUtils, SearchModelVersionUtils, SearchUtils

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.keys.encoding import is_cut
from mlflow_dynamodbstore.registry.items import name_of_guard
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE, TAG, Comparison
from mlflow_dynamodbstore.shared.search.like import fixed_prefix
from mlflow_dynamodbstore.shared.search.ordering import Ordering, Position, SortKey
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key

NAME = "name"
UPDATED = "last_updated_timestamp"
VERSION = "version_number"
RUN_ID = "run_id"

GUARD_PAGE = 250
LEAST_GUARDS = 50
"""Prompts stand among the models, so a page of fewer might show nothing."""
PARSED_KEPT = 512


@dataclass(frozen=True)
class Filter:
    """The terms of a filter, and on which side of the line between models and prompts it looks.

    Models are told from prompts by a tag that only prompts have. A filter that does not ask for
    prompts by that tag is about models alone.
    """

    terms: tuple[Comparison, ...]
    prompts: bool = False

    @property
    def has_tags(self) -> bool:
        return any(term.kind == TAG for term in self.terms)

    def on(self, name: str) -> list[Comparison]:
        """The terms about an attribute."""
        return [term for term in self.terms if (term.kind, term.name) == (ATTRIBUTE, name)]

    @property
    def needs_list_of_names(self) -> bool:
        """Whether it has a pattern of names, and does not say how they begin or what they are."""
        patterns = [term for term in self.on(NAME) if term.comparator in ("LIKE", "ILIKE")]
        begins = any(t.comparator == "LIKE" and fixed_prefix(t.value) for t in patterns)
        return bool(patterns) and not begins and self.exact(NAME) is None

    def exact(self, name: str) -> list[str] | None:
        """The only values that an attribute may have, in order; None when they are not known."""
        terms = self.on(name)
        listed = [{t.value} if t.comparator == "=" else {*t.value} for t in terms if _is_exact(t)]
        if not listed:
            return None
        return sorted(v for v in set.intersection(*listed) if all(t.holds()(v) for t in terms))


# Parsing takes longer than most searches, and the same few filters and orders come again and again.


@lru_cache(maxsize=PARSED_KEPT)
def model_filter(filter_string: str | None) -> Filter:
    """The filter of a search for models."""
    return _filter(SearchModelUtils.parse_search_filter(filter_string), _check_model_term)


@lru_cache(maxsize=PARSED_KEPT)
def version_filter(filter_string: str | None) -> Filter:
    """The filter of a search for versions."""
    return _filter(SearchModelVersionUtils.parse_search_filter(filter_string), _check_version_term)


def _filter(parsed: Sequence[dict[str, Any]], check: Callable[[Comparison], Comparison]) -> Filter:
    terms = [Comparison(t["type"], t["key"], t["comparator"], t["value"]) for t in parsed]
    for term in terms:
        if term.kind not in (ATTRIBUTE, TAG):
            raise _invalid(f"Invalid token type: {term.kind}")
        if term.kind == TAG and term.comparator not in ("=", "!=", "LIKE", "ILIKE"):
            raise _invalid(f"Invalid comparator for tag: {term.comparator}")
    terms = [check(term) if term.kind == ATTRIBUTE else term for term in terms]
    prompts = _asks_for_prompts(terms)
    if not prompts:
        terms = [t for t in terms if (t.kind, t.name) != (TAG, IS_PROMPT_TAG_KEY)]
    return Filter(tuple(terms), prompts)


def _asks_for_prompts(terms: list[Comparison]) -> bool:
    for term in terms:
        if (term.kind, term.name) == (TAG, IS_PROMPT_TAG_KEY):
            return (term.comparator, term.value.lower()) in (("=", "true"), ("!=", "false"))
    return False


def _check_model_term(term: Comparison) -> Comparison:
    if term.name != NAME:
        raise _invalid(f"Invalid attribute name: {term.name}")
    if term.comparator not in ("=", "!=", "LIKE", "ILIKE", "IN", "NOT IN"):
        raise _invalid(f"Invalid comparator for attribute: {term.comparator}")
    return term


def _check_version_term(term: Comparison) -> Comparison:
    rules, name, comparator = SearchModelVersionUtils, term.name, term.comparator
    if name not in rules.VALID_SEARCH_ATTRIBUTE_KEYS:
        raise _invalid(f"Invalid attribute name: {name}")
    if name in rules.NUMERIC_ATTRIBUTES:
        if comparator not in rules.VALID_NUMERIC_ATTRIBUTE_COMPARATORS:
            raise _invalid(f"Invalid comparator for attribute {name}: {comparator}")
        return Comparison(ATTRIBUTE, name, comparator, _whole_number(name, term.value))
    is_list = comparator in ("IN", "NOT IN")
    if comparator not in rules.VALID_STRING_ATTRIBUTE_COMPARATORS or (
        is_list and name not in (RUN_ID, NAME)
    ):
        raise _invalid(f"Invalid comparator for attribute: {comparator}")
    return term


def _whole_number(name: str, value: Any) -> int:
    wrong = _invalid(f"Invalid value for numeric attribute '{name}': {value!r}")
    if isinstance(value, float):
        raise wrong
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise wrong from error


def _is_exact(term: Comparison) -> bool:
    return term.comparator in ("=", "IN")


def _invalid(message: str) -> MlflowException:
    return MlflowException(message, INVALID_PARAMETER_VALUE)


# --- order --------------------------------------------------------------------------------------


@lru_cache(maxsize=PARSED_KEPT)
def model_ordering(order_by: tuple[str, ...]) -> Ordering:
    """The order of a search for models: by name when nothing else decides."""
    wanted = []
    for clause in order_by:
        token, ascending = SearchUtils.parse_order_by_for_search_registered_models(clause)
        wanted.append(SortKey(ATTRIBUTE, NAME if token == NAME else UPDATED, ascending))
    return _ordering(wanted, order_by, [SortKey(ATTRIBUTE, NAME)])


@lru_cache(maxsize=PARSED_KEPT)
def version_ordering(order_by: tuple[str, ...]) -> Ordering:
    """The order of a search for versions: by name, then the newest first, where nothing decides."""
    order_by = order_by or (f"{UPDATED} DESC", f"{NAME} ASC", f"{VERSION} DESC")
    wanted = []
    for clause in order_by:
        parsed = SearchModelVersionUtils.parse_order_by_for_search_model_versions(clause)
        _, key, ascending = parsed
        if key not in SearchModelVersionUtils.VALID_ORDER_BY_ATTRIBUTE_KEYS:
            raise _invalid(
                f"Invalid order by key '{key}' specified. Valid keys are "
                f"{SearchModelVersionUtils.VALID_ORDER_BY_ATTRIBUTE_KEYS}"
            )
        wanted.append(SortKey(ATTRIBUTE, key, ascending))
    last = [SortKey(ATTRIBUTE, NAME), SortKey(ATTRIBUTE, VERSION, ascending=False)]
    return _ordering(wanted, order_by, last)


def _ordering(wanted: list[SortKey], order_by: tuple[str, ...], last: list[SortKey]) -> Ordering:
    named = [key.name for key in wanted]
    if len(set(named)) < len(named):
        raise MlflowException(f"`order_by` contains duplicate fields: {list(order_by)}")
    return Ordering((*wanted, *(key for key in last if key.name not in named)))


def position_after(ordering: Ordering, page_token: str | None) -> Position | None:
    """The position that a page token names."""
    if page_token:
        try:
            base64.b64decode(page_token)
        except (TypeError, binascii.Error) as error:
            raise _invalid("Invalid page token, could not base64-decode") from error
    return ordering.after(page_token)


# --- names --------------------------------------------------------------------------------------


class Guards(NamedTuple):
    """How a workspace lists the names of one kind of thing."""

    starting: Callable[[str], Range]
    key: Callable[[str, str], Key]
    name_of: Callable[[Item], str]


MODELS = Guards(access_keys.model_names_starting, access_keys.model_name_guard, name_of_guard)


class Listed(NamedTuple):
    """A name, with the guard that lists it where that has been read."""

    name: str
    guard: Item | None = None


@dataclass(frozen=True)
class Names:
    """The names of things that a search has to look at, listed by consistent reads.

    ``known`` are those that come into question, where that was found out by their words. ``shown``
    is how many will do where the filter leaves nothing out.
    """

    table: Table
    workspace: str
    filter: Filter
    guards: Guards = MODELS
    known: Collection[str] | None = None
    shown: int | None = None

    def listed(self, ordering: Ordering, after: Position | None) -> Iterator[str]:
        """The names that the filter allows, by name in the order of the search where it has one."""
        return (name for name, _ in self.entries(ordering, after))

    def entries(self, ordering: Ordering, after: Position | None) -> Iterator[Listed]:
        """The same, with the guards that were read on the way."""
        first = ordering.keys[0]
        descending = first.name == NAME and not first.ascending
        bound = after[0][1] if after is not None and first.name == NAME else None
        terms = [term.holds() for term in self.filter.on(NAME)]
        exact = self.filter.exact(NAME)
        chosen = self.known if exact is None else exact
        names = (
            self._guarded(descending, bound)
            if chosen is None
            else (Listed(name) for name in sorted(chosen, reverse=descending))
        )
        return (listed for listed in names if all(holds(listed.name) for holds in terms))

    def _guarded(self, descending: bool, bound: Any) -> Iterator[Listed]:
        """Names from the guards; what stands before the bound may be left out."""
        starts = [fixed_prefix(t.value) for t in self.filter.on(NAME) if t.comparator == "LIKE"]
        place = self.guards.starting(max(starts, key=len, default=""))
        if isinstance(bound, str):
            sk = self.guards.key(bound, self.workspace).sk
            if not is_cut(sk):
                low, high = place
                place = Range(low, min(high, sk)) if descending else Range(max(low, sk), high)
        query = Query(
            access_keys.workspace_pk(self.workspace),
            where=place.on(),
            descending=descending,
            limit=self._page,
        )
        if place.low > place.high:
            return iter(())
        return (Listed(self.guards.name_of(guard), guard) for guard in self.table.items(query))

    @property
    def _page(self) -> int:
        """How many guards to read at once."""
        if self.shown is None or self.filter.terms:
            return GUARD_PAGE
        return min(max(self.shown, LEAST_GUARDS), GUARD_PAGE)
