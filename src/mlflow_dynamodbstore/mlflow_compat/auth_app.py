"""Patches of MLflow's auth app that make it use another store.

The app keeps its store in a variable of its module and reads it at every request. It has no setting
for another store, so we assign that variable, and wrap the functions that the app gives to Flask.
Before anything is served we check that this works: if an upgrade of MLflow breaks it, the server
does not start, rather than run on a store that is not ours.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.mlflow_compat.auth import ENTITIES, PERMISSIONS, STORE
from mlflow_dynamodbstore.mlflow_compat.names import missing_names
from mlflow_dynamodbstore.mlflow_compat.server import HANDLERS as SERVER_HANDLERS

STORE_READERS = (
    ("authenticate_request_basic_auth",),
    ("bootstrap_admin_user", "create_app"),  # the second is that of MLflow 3.15
    ("create_admin_user",),
)
"""Functions of the app that must read the store from the variable: the first there is of each."""
HOOKS = ("_before_request", "_after_request")
GET_TRACKING_STORE = "_get_tracking_store"
RUN_CHECKS = ("_run_requirement", "_get_permission_from_run_id")
"""Functions that find the run of a request; the second is that of MLflow up to 3.16."""
FILL_MCP_PAGE = "_backfill_readable_mcp_results"
MCP_FILTERS = ("_filter_search_mcp_servers", "_filter_search_mcp_endpoints")
HANDLERS = "AFTER_REQUEST_HANDLERS"
VALIDATORS = "BEFORE_REQUEST_VALIDATORS"
FIND_VALIDATOR = "_find_validator"

Hook = Callable[..., Any]


def load_auth_app() -> ModuleType:
    """The module of MLflow's auth app."""
    return importlib.import_module("mlflow.server.auth")


@dataclass(frozen=True)
class Replacements:
    """What takes the place of parts of the app.

    ``filters`` are the app's filters of searches that ``after_request`` calls page by page.
    """

    store_class: type
    wrap_tracking_store: Callable[[Any, Any], Any]
    fill_mcp_page: Callable[..., str | None]
    before_request: Callable[[Hook], Hook]
    after_request: Callable[[ModuleType, Hook], Hook]
    filters: tuple[str, ...]

    def install(self, auth: ModuleType, store: Any) -> None:
        """Make the app use a store. Raises ``MlflowException`` for an MLflow that does not fit."""
        self.check(auth)
        app = vars(auth)
        get_tracking_store = app[GET_TRACKING_STORE]
        before, after = (app[name] for name in HOOKS)
        app["store"] = store
        app[GET_TRACKING_STORE] = lambda: self.wrap_tracking_store(get_tracking_store(), store)
        app[FILL_MCP_PAGE] = self.fill_mcp_page
        app[FIND_VALIDATOR] = with_workspace_paths(auth, app[FIND_VALIDATOR])
        app["_before_request"] = self.before_request(before)
        app["_after_request"] = self.after_request(auth, after)

    def check(self, auth: ModuleType) -> None:
        """Raise for an MLflow whose auth app does not work with our store, and say why."""
        problems = [*self._problems_of_module(auth), *self._problems_of_methods(auth)]
        if problems:
            raise MlflowException(
                "This version of MLflow's auth app does not work with mlflow-dynamodbstore: "
                + "; ".join(problems)
                + ". Install a version of mlflow that this release supports."
            )

    def _problems_of_module(self, auth: ModuleType) -> Iterator[str]:
        for name in missing_names(ENTITIES, PERMISSIONS, STORE, SERVER_HANDLERS):
            yield f"it has no {name}"
        theirs = getattr(auth, "SqlAlchemyStore", None)
        store = vars(auth).get("store")
        if theirs is None or not isinstance(store, (theirs, self.store_class)):
            yield "it does not keep its store in the variable store"
        for names in STORE_READERS:
            if not _reads(auth, name := _first_in(auth, names), "store"):
                yield f"{name}() does not read the variable store"
        for name in HOOKS:
            if not inspect.isfunction(vars(auth).get(name)) or not _reads(auth, "create_app", name):
                yield f"create_app() does not use {name}()"
        for name in (FIND_VALIDATOR, VALIDATORS):
            if name not in vars(auth):
                yield f"it has no {name}"
        run_check = _first_in(auth, RUN_CHECKS)
        if not _reads(auth, run_check, GET_TRACKING_STORE):
            yield f"{run_check}() does not use {GET_TRACKING_STORE}()"
        for name in MCP_FILTERS:
            if not _reads(auth, name, FILL_MCP_PAGE):
                yield f"{name}() does not use {FILL_MCP_PAGE}()"
        their_function = vars(auth).get(FILL_MCP_PAGE, self.fill_mcp_page)
        if _parameters(their_function) != _parameters(self.fill_mcp_page):
            yield f"{FILL_MCP_PAGE}() takes other arguments"
        handlers = list(getattr(auth, HANDLERS, {}).values())
        for name in self.filters:
            if not any(handler is vars(auth).get(name) for handler in handlers):
                yield f"{name}() is not among its {HANDLERS}"

    def _problems_of_methods(self, auth: ModuleType) -> Iterator[str]:
        theirs = getattr(auth, "SqlAlchemyStore", None)
        called = _names_in(auth)
        for name, method in inspect.getmembers(theirs, inspect.isroutine):
            if name.startswith("_") and name not in called:
                continue
            ours = getattr(self.store_class, name, None)
            if ours is None:
                yield f"its store has {name}(), ours does not"
            elif missing := _parameters(method) - _parameters(ours):
                yield f"{name}() of its store takes {', '.join(sorted(missing))}, ours does not"


def is_filtered_by(auth: ModuleType, name: str, path: str, method: str) -> bool:
    """Whether the app filters the response to a request by its function of this name."""
    handler = vars(auth)[HANDLERS].get((path, method))
    return handler is not None and handler is vars(auth)[name]


def with_workspace_paths(auth: ModuleType, find_validator: Hook) -> Hook:
    """Find who may change or delete a workspace too, whose path holds its name.

    MLflow up to 3.16 looks such paths up as plain texts, finds no validator, and lets every user
    delete every workspace.
    """
    changing = [
        (re.compile(re.sub(r"<[^>]+>", "[^/]+", path)), method, validator)
        for (path, method), validator in vars(auth)[VALIDATORS].items()
        if "/workspaces/<" in path and method != "GET"
    ]

    @functools.wraps(find_validator)
    def find(request: Any) -> Any:
        for pattern, method, validator in changing:
            if method == request.method and pattern.fullmatch(request.path):
                return validator
        return find_validator(request)

    return find


def configured_password(auth: ModuleType) -> str | None:
    """The first user's password; None for the one that MLflow 3.15 ships, which all know."""
    password: str | None = vars(auth)["auth_config"].admin_password
    return None if password == vars(auth).get("_DEFAULT_ADMIN_PASSWORD") else password


def _first_in(auth: ModuleType, names: tuple[str, ...]) -> str:
    return next((name for name in names if name in vars(auth)), names[0])


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
