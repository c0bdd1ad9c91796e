"""The filters and orders of searches, checked in MLflow's words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mlflow.exceptions import MlflowException
from mlflow.prompt.constants import IS_PROMPT_TAG_KEY
from mlflow.utils.search_utils import SearchModelUtils, SearchModelVersionUtils, SearchUtils

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.mlflow_compat.search import parse_search_filter
from mlflow_dynamodbstore.registry.items import name_of_guard
from mlflow_dynamodbstore.shared.names.attributes import NAME
from mlflow_dynamodbstore.shared.names.search import PARSED_KEPT, Filter, Guards
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE, TAG, Comparison
from mlflow_dynamodbstore.shared.search.ordering import Ordering, SortKey

UPDATED = "last_updated_timestamp"
VERSION = "version_number"
RUN_ID = "run_id"


MODELS = Guards(access_keys.model_names_starting, access_keys.model_name_guard, name_of_guard)


@dataclass(frozen=True)
class ModelFilter(Filter):
    """A filter of models and versions, or of prompts.

    Prompts are models that have a certain tag. A filter that does not ask for that tag leaves
    prompts out.
    """

    prompts: bool = False


@lru_cache(maxsize=PARSED_KEPT)
def model_filter(filter_string: str | None) -> ModelFilter:
    """The filter of a search for models."""
    return _filter(parse_search_filter(SearchModelUtils, filter_string), _check_model_term)


@lru_cache(maxsize=PARSED_KEPT)
def version_filter(filter_string: str | None) -> ModelFilter:
    """The filter of a search for versions."""
    return _filter(parse_search_filter(SearchModelVersionUtils, filter_string), _check_version_term)


def _filter(
    parsed: Sequence[dict[str, Any]], check: Callable[[Comparison], Comparison]
) -> ModelFilter:
    terms = [Comparison(t["type"], t["key"], t["comparator"], t["value"]) for t in parsed]
    for term in terms:
        if term.kind not in (ATTRIBUTE, TAG):
            raise invalid(f"Invalid token type: {term.kind}")
        if term.kind == TAG and term.comparator not in ("=", "!=", "LIKE", "ILIKE"):
            raise invalid(f"Invalid comparator for tag: {term.comparator}")
    terms = [check(term) if term.kind == ATTRIBUTE else term for term in terms]
    marks = [t for t in terms if (t.kind, t.name) == (TAG, IS_PROMPT_TAG_KEY)]
    first = (marks[0].comparator, marks[0].value.lower()) if marks else None
    prompts = first in (("=", "true"), ("!=", "false"))
    if not prompts:
        terms = [t for t in terms if t not in marks]
    return ModelFilter(tuple(terms), prompts)


def _check_model_term(term: Comparison) -> Comparison:
    if term.name != NAME:
        raise invalid(f"Invalid attribute name: {term.name}")
    if term.comparator not in ("=", "!=", "LIKE", "ILIKE", "IN", "NOT IN"):
        raise invalid(f"Invalid comparator for attribute: {term.comparator}")
    return term


def _check_version_term(term: Comparison) -> Comparison:
    rules, name, comparator = SearchModelVersionUtils, term.name, term.comparator
    if name not in rules.VALID_SEARCH_ATTRIBUTE_KEYS:
        raise invalid(f"Invalid attribute name: {name}")
    if name in rules.NUMERIC_ATTRIBUTES:
        if comparator not in rules.VALID_NUMERIC_ATTRIBUTE_COMPARATORS:
            raise invalid(f"Invalid comparator for attribute {name}: {comparator}")
        return Comparison(ATTRIBUTE, name, comparator, _whole_number(name, term.value))
    is_list = comparator in ("IN", "NOT IN")
    if comparator not in rules.VALID_STRING_ATTRIBUTE_COMPARATORS or (
        is_list and name not in (RUN_ID, NAME)
    ):
        raise invalid(f"Invalid comparator for attribute: {comparator}")
    return term


def _whole_number(name: str, value: Any) -> int:
    wrong = invalid(f"Invalid value for numeric attribute '{name}': {value!r}")
    if isinstance(value, float):
        raise wrong
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise wrong from error


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
        _, key, ascending = SearchModelVersionUtils.parse_order_by_for_search_model_versions(clause)
        if key not in SearchModelVersionUtils.VALID_ORDER_BY_ATTRIBUTE_KEYS:
            raise invalid(
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
