"""MLflow's ASGI app, taken apart: the Flask app that it mounts, its middleware, its routes.

Every function says None or "no" for an app that is not built as those of the releases we know. Then
the server runs MLflow's own app as it is.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Container
from typing import Any

from fastapi import FastAPI
from flask import has_request_context
from google.protobuf.json_format import MessageToDict
from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES
from mlflow.utils.proto_json_utils import message_to_json
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.routing import Match, Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from mlflow_dynamodbstore.mlflow_compat.names import (
    missing_names,
    private,
    private_later,
    unavailable,
)

SERVER = "mlflow.server"
FASTAPI_APP = "mlflow.server.fastapi_app"
WORKSPACE_HEADER = b"x-mlflow-workspace"
ARTIFACTS_ONLY = "_MLFLOW_SERVER_ARTIFACTS_ONLY"
SGI_NAME = "_MLFLOW_SGI_NAME"
STATIC_PREFIX = "_MLFLOW_STATIC_PREFIX"

WSGI = Callable[..., Any]

PER_REQUEST = frozenset({"workspace_context_middleware", "gateway_timing_middleware"})
"""Middleware that does nothing for a request to Flask, but to find its workspace."""
HOOKING_MODULES = frozenset(
    {"mlflow.server.security", "mlflow.server.workspace_helpers", "flask_cors.extension"}
)
JSON_UTILS = "mlflow.utils.proto_json_utils"
PERMISSIONS = "fastapi_permission_middleware"

resolve_workspace: Any = private_later(
    "mlflow.server.workspace_helpers",
    "resolve_workspace_for_request_if_enabled",
    unavailable("Answering without MLflow's middleware"),
)
"""The workspace of a request, given its path and header; raises MLflow's errors."""


build_environ: Any = private_later(
    FASTAPI_APP, "build_environ", unavailable("Passing requests to Flask")
)
"""Starlette's, by the name in MLflow's module: importing Starlette's own prints a warning."""


def runs_under_uvicorn() -> bool:
    """Whether ``mlflow server`` starts an ASGI server; otherwise it wants a WSGI app."""
    return os.environ.get(SGI_NAME) == "uvicorn"


def flask_app() -> Any:
    """MLflow's Flask app."""
    return importlib.import_module(SERVER).app


def mlflow_app() -> FastAPI:
    """MLflow's own ASGI app."""
    app: FastAPI = importlib.import_module(FASTAPI_APP).app
    return app


def is_for_artifacts_only() -> bool:
    """Whether the server refuses all calls but those for artifacts."""
    return bool(os.environ.get(ARTIFACTS_ONLY))


def has_workspaces() -> bool:
    """Whether workspaces are switched on."""
    return bool(MLFLOW_ENABLE_WORKSPACES.get())


def replace_bridge(app: FastAPI, bridge: Callable[[WSGI], ASGIApp]) -> bool:
    """Mount what is mounted as a WSGI app through another bridge; whether there was one."""
    for route in app.routes:
        if isinstance(route, Mount) and route.path == "" and _is_wsgi_bridge(route.app):
            route.app = bridge(vars(route.app)["app"])
            return True
    return False


def _is_wsgi_bridge(app: Any) -> bool:
    return "WSGIMiddleware" in type(app).__name__ and callable(vars(app).get("app"))


def is_native(app: FastAPI, method: str, path: str) -> bool:
    """Whether MLflow answers a request without Flask."""
    scope = {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}
    return any(
        route.matches(scope)[0] is not Match.NONE
        for route in app.routes
        if not (isinstance(route, Mount) and route.path == "")
    )


def without_waiting_middleware(app: FastAPI) -> ASGIApp | None:
    """MLflow's app without its middleware for workspaces and timing; None if it has other, too."""
    kept = [one for one in app.user_middleware if not _is_named(one, PER_REQUEST)]
    if any(one.cls is BaseHTTPMiddleware for one in kept):  # type: ignore[comparison-overlap]
        return None
    all_middleware, app.user_middleware = app.user_middleware, kept
    try:
        stack = app.build_middleware_stack()
    finally:
        app.user_middleware = all_middleware

    async def without_waiting(scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = app  # as the app itself does
        await stack(scope, receive, send)

    return without_waiting


def _is_named(middleware: Any, names: Container[str]) -> bool:
    return (
        middleware.cls is BaseHTTPMiddleware
        and getattr(middleware.kwargs.get("dispatch"), "__name__", "") in names
    )


def gateway_prefix() -> str:
    """How the paths begin whose answers are timed."""
    return static_prefix() + "/gateway/"


def static_prefix() -> str:
    """What all paths of the server begin with, without a slash at its end."""
    return os.environ.get(STATIC_PREFIX, "").rstrip("/")


def behind_security(app: FastAPI, inner: ASGIApp, *, permissions: bool = False) -> ASGIApp | None:
    """An app behind the security middleware of MLflow's, without what Flask does itself.

    ``permissions`` says that Flask checks them too. None if the app has middleware we do not know.
    """
    skipped = PER_REQUEST | ({PERMISSIONS} if permissions else set())
    wrapped = inner
    for middleware in reversed(app.user_middleware):
        factory: Any = middleware.cls
        if _is_named(middleware, skipped):
            continue
        if factory is BaseHTTPMiddleware:
            return None
        wrapped = factory(wrapped, *middleware.args, **middleware.kwargs)
    return ServerErrorMiddleware(wrapped)


def missing_for_native_routes() -> list[str]:
    """The names that the native routes need and that this release of MLflow lacks."""
    return missing_names("mlflow.server.workspace_helpers", "mlflow.server.handlers")


def has_known_hooks_only(flask: Any) -> bool:
    """Whether nothing but MLflow's own security and workspaces is called around Flask's views."""
    hooks = [
        hook
        for registered in (
            flask.before_request_funcs,
            flask.after_request_funcs,
            flask.teardown_request_funcs,
            flask.url_value_preprocessors,
        )
        for some in registered.values()
        for hook in some
    ]
    return all(hook.__module__ in HOOKING_MODULES for hook in hooks)


def permission_check(auth: Any) -> Callable[[str, str], bool]:
    """Whether MLflow's auth app checks a method of a path before it reaches Flask."""
    find = vars(auth).get("_find_fastapi_validator")
    if find is None:
        return lambda _method, _path: True  # unknown: as if it did
    return lambda method, path: find(path, method) is not None


def permitted_experiments(experiment_ids: list[str]) -> list[str]:
    """Those of some experiments that the user of the current request may read."""
    if not has_request_context():
        return experiment_ids  # outside of Flask there are no users
    try:
        auth = importlib.import_module("mlflow.server.auth")
    except ImportError:  # the extra that it needs is not installed
        return experiment_ids
    if not auth.auth_config:
        return experiment_ids
    permitted: list[str] = auth.filter_experiment_ids(experiment_ids)
    return permitted


def message_to_dict(message: Any) -> dict[str, Any]:
    """A protobuf message as the JSON that MLflow answers with."""
    made: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
    merged: dict[str, Any] = _merge_json_dicts(_mark_int64_fields(message), made)
    return merged


def _numbers_of_message(message: Any) -> Any:
    return json.loads(message_to_json(message))


def _take_numbers(numbers: Any, _made: dict[str, Any]) -> Any:
    return numbers


_mark_int64_fields: Any = private(JSON_UTILS, "_mark_int64_fields", _numbers_of_message)
_merge_json_dicts: Any = private(JSON_UTILS, "_merge_json_dicts", _take_numbers)
