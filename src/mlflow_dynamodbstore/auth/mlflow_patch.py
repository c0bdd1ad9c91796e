"""Patches of MLflow's auth app that make it use our store.

The app keeps its store in a variable of its module and reads it at every request. It has no setting
for another store, so we assign that variable, and wrap the functions that the app gives to Flask.
Before anything is served we check that this works: if an upgrade of MLflow breaks it, the server
does not start, rather than run on a store that is not ours.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType, NoneType
from typing import Any

from flask import Response, request
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.auth.cache import fresh_answers
from mlflow_dynamodbstore.auth.filtered_lists import fill_page, listing_of, missing_filters
from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore
from mlflow_dynamodbstore.auth.tracking_lookups import CachedTrackingStore, fill_mcp_page

STORE_READERS = ("authenticate_request_basic_auth", "bootstrap_admin_user", "create_admin_user")
"""Functions of the app that must read the store from the variable."""
HOOKS = ("_before_request", "_after_request")
GET_TRACKING_STORE = "_get_tracking_store"
FILL_MCP_PAGE = "_backfill_readable_mcp_results"
MCP_FILTERS = ("_filter_search_mcp_servers", "_filter_search_mcp_endpoints")
READING_POSTS = ("/search", "/batchGetInfos", "/get-latest-versions")
"""The ends of the paths of POST requests that change nothing."""
BAD_REQUEST = 400
FORBIDDEN = 403


def install_store(auth: ModuleType, store: DynamoDBAuthStore) -> None:
    """Make the app use our store. Raises ``MlflowException`` for an MLflow that does not fit."""
    check_mlflow(auth)
    get_tracking_store = vars(auth)[GET_TRACKING_STORE]
    vars(auth)["store"] = store
    vars(auth)[GET_TRACKING_STORE] = lambda: CachedTrackingStore(
        get_tracking_store(), store.answers
    )
    vars(auth)[FILL_MCP_PAGE] = fill_mcp_page
    vars(auth)["_before_request"] = _with_denials_rechecked(vars(auth)["_before_request"])
    vars(auth)["_after_request"] = _with_omissions_rechecked(auth, vars(auth)["_after_request"])


def check_mlflow(auth: ModuleType) -> None:
    """Raise for an MLflow whose auth app does not work with our store, and say why."""
    problems = [*_problems_of_module(auth), *_problems_of_methods(auth)]
    if problems:
        raise MlflowException(
            "This version of MLflow's auth app does not work with mlflow-dynamodbstore: "
            + "; ".join(problems)
            + ". Install a version of mlflow that this release supports."
        )


def _problems_of_module(auth: ModuleType) -> Iterator[str]:
    theirs = getattr(auth, "SqlAlchemyStore", None)
    store = vars(auth).get("store")
    if theirs is None or not isinstance(store, (theirs, DynamoDBAuthStore)):
        yield "it does not keep its store in the variable store"
    for name in STORE_READERS:
        if not _reads(auth, name, "store"):
            yield f"{name}() does not read the variable store"
    for name in HOOKS:
        if not inspect.isfunction(vars(auth).get(name)) or not _reads(auth, "create_app", name):
            yield f"create_app() does not use {name}()"
    if not _reads(auth, "_run_requirement", GET_TRACKING_STORE):
        yield f"_run_requirement() does not use {GET_TRACKING_STORE}()"
    for name in MCP_FILTERS:
        if not _reads(auth, name, FILL_MCP_PAGE):
            yield f"{name}() does not use {FILL_MCP_PAGE}()"
    their_function = vars(auth).get(FILL_MCP_PAGE, fill_mcp_page)
    if _parameters(their_function) != _parameters(fill_mcp_page):
        yield f"{FILL_MCP_PAGE}() takes other arguments"
    for name in missing_filters(auth):
        yield f"{name}() is not among its AFTER_REQUEST_HANDLERS"


def _problems_of_methods(auth: ModuleType) -> Iterator[str]:
    theirs = getattr(auth, "SqlAlchemyStore", None)
    called = _names_in(auth)
    for name, method in inspect.getmembers(theirs, inspect.isroutine):
        if name.startswith("_") and name not in called:
            continue
        ours = getattr(DynamoDBAuthStore, name, None)
        if ours is None:
            yield f"its store has {name}(), ours does not"
        elif missing := _parameters(method) - _parameters(ours):
            yield f"{name}() of its store takes {', '.join(sorted(missing))}, ours does not"


def _reads(auth: ModuleType, name: str, variable: str) -> bool:
    """Whether a function of the module reads a variable of the module."""
    function = vars(auth).get(name)
    return (
        inspect.isfunction(function)
        and function.__globals__ is vars(auth)
        and variable in function.__code__.co_names
    )


def _names_in(auth: ModuleType) -> set[str]:
    """All names that the functions of a module use and the module does not define."""
    functions = [f for f in vars(auth).values() if isinstance(f, FunctionType)]
    own = [f.__code__ for f in functions if f.__module__ == auth.__name__]
    return {name for code in own for name in _names_of(code)} - set(vars(auth))


def _names_of(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_of(constant)


def _parameters(method: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(method).parameters) - {"self", "cls"}


def _with_denials_rechecked(before_request: Callable[[], Any]) -> Callable[[], Any]:
    """Check a refused request again without the cache: access may just have been granted."""

    @functools.wraps(before_request)
    def checked() -> Any:
        response = before_request()
        if getattr(response, "status_code", None) == FORBIDDEN:
            with fresh_answers():
                response = before_request()
        return _refusal_of_body() if response is None else response

    return checked


def _refusal_of_body() -> Response | None:
    """The refusal of a JSON body that is no object; MLflow's handlers would fail on it."""
    if request.mimetype != "application/json":
        return None
    if isinstance(request.get_json(silent=True), (dict, NoneType)):
        return None
    return Response("The body must be a JSON object.", BAD_REQUEST, mimetype="text/plain")


def _with_omissions_rechecked(
    auth: ModuleType, after_request: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """Decide without the cache what a response omits: access may just have been granted."""

    @functools.wraps(after_request)
    def checked(response: Any) -> Any:
        if response.status_code >= BAD_REQUEST:
            return after_request(response)
        listing = listing_of(auth, request.path, request.method)
        if listing is None and _only_reads():
            return _filtered_by_cache_first(after_request, response)
        with fresh_answers():
            if listing is None:
                return after_request(response)
            fill_page(listing, after_request, response)
            return response

    return checked


def _only_reads() -> bool:
    """Whether MLflow's work after this request may be done twice."""
    return request.method == "GET" or request.path.endswith(READING_POSTS)


def _filtered_by_cache_first(after_request: Callable[[Any], Any], response: Any) -> Any:
    """Filter a response by cached permissions; if that omits something, filter it without them."""
    if not response.is_json or response.is_streamed:
        return after_request(response)
    whole = response.get_data()
    filtered = after_request(response)
    if filtered.get_data() == whole:
        return filtered
    response.set_data(whole)
    with fresh_answers():
        return after_request(response)
