"""MLflow's ASGI app, taken apart: the Flask app that it mounts, its middleware, its routes.

Every function says None or "no" for an app that is not built as those of the releases we know. Then
the server runs MLflow's own app as it is.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.routing import Match, Mount
from starlette.types import ASGIApp

from mlflow_dynamodbstore.mlflow_compat.names import private_later

SERVER = "mlflow.server"
FASTAPI_APP = "mlflow.server.fastapi_app"
WORKSPACE_HEADER = b"x-mlflow-workspace"
ARTIFACTS_ONLY = "_MLFLOW_SERVER_ARTIFACTS_ONLY"
SGI_NAME = "_MLFLOW_SGI_NAME"

WSGI = Callable[..., Any]

PER_REQUEST = frozenset({"workspace_context_middleware", "gateway_timing_middleware"})
"""Middleware that does nothing for a request to Flask, but to find its workspace."""
PERMISSIONS = "fastapi_permission_middleware"

resolve_workspace: Any = private_later(
    "mlflow.server.workspace_helpers", "resolve_workspace_for_request_if_enabled", None
)
"""The workspace of a request, given its path and header; raises MLflow's errors."""


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


def behind_security(app: FastAPI, inner: ASGIApp, *, permissions: bool = False) -> ASGIApp | None:
    """An app behind the security middleware of MLflow's, without what Flask does itself.

    ``permissions`` says that Flask checks them too. None if the app has middleware we do not know.
    """
    skipped = PER_REQUEST | ({PERMISSIONS} if permissions else set())
    wrapped = inner
    for middleware in reversed(app.user_middleware):
        factory: Any = middleware.cls
        if factory is BaseHTTPMiddleware:
            name = getattr(middleware.kwargs.get("dispatch"), "__name__", "")
            if name not in skipped:
                return None
            continue
        wrapped = factory(wrapped, *middleware.args, **middleware.kwargs)
    return ServerErrorMiddleware(wrapped)
