"""The app ``dynamodb``: ``mlflow server --app-name dynamodb``."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Any

from mlflow.version import VERSION
from starlette.types import ASGIApp

from mlflow_dynamodbstore.mlflow_compat import server_app
from mlflow_dynamodbstore.mlflow_compat.otlp import span_endpoint
from mlflow_dynamodbstore.mlflow_compat.prometheus import metrics_are_exposed
from mlflow_dynamodbstore.server.bridge import Bridge
from mlflow_dynamodbstore.server.exposition import expose
from mlflow_dynamodbstore.server.front import Front, Ways
from mlflow_dynamodbstore.server.lane import Lane
from mlflow_dynamodbstore.server.native import install_views, matcher, routes_of
from mlflow_dynamodbstore.server.operator_page import install_page
from mlflow_dynamodbstore.server.threads import Threads
from mlflow_dynamodbstore.shared.counter_files import files_of_this_server

_logger = logging.getLogger(__name__)


def create_app() -> Any:
    """MLflow's app with shorter ways. MLflow's server calls it once in each of its processes.

    Under a WSGI server it is MLflow's Flask app with the native routes.
    """
    flask = server_app.flask_app()
    install_page(flask, files_of_this_server().read)
    if not server_app.runs_under_uvicorn():
        return with_native_routes(flask)
    return settled(improved(server_app.mlflow_app(), flask))


def settled(app: Any) -> Any:
    """An app that is complete.

    What is imported stays: looking through it for garbage took 170 ms each time.
    """
    gc.freeze()
    return app


def with_native_routes(flask: Any) -> Any:
    """MLflow's Flask app with the native routes, where it is built as we know it."""
    missing = server_app.missing_for_native_routes()
    if missing:
        _logger.warning("MLflow %s lacks %s: its own routes answer.", VERSION, ", ".join(missing))
    elif not server_app.is_for_artifacts_only():
        install_views(flask)
    if metrics_are_exposed():
        expose(flask, files_of_this_server().read, server_app.static_prefix())
    return flask


def improved(
    app: Any, flask: Any, *, has_check: Callable[[str, str], bool] | None = None
) -> ASGIApp:
    """MLflow's app behind our front, on our bridge; as it is where it is built in another way.

    ``has_check`` says for an app with users whether it checks a request before it reaches Flask.
    """
    threads = Threads("flask")
    with_native_routes(flask)
    if not server_app.replace_bridge(app, lambda wsgi: Bridge(wsgi, threads)):
        _logger.warning("MLflow %s mounts Flask in another way: its own app runs.", VERSION)
        plain: ASGIApp = app
        return plain
    bridge = Bridge(flask, threads)
    routes = [] if server_app.missing_for_native_routes() else list(routes_of(flask))
    if server_app.is_for_artifacts_only() or not server_app.has_known_hooks_only(flask):
        routes = []  # Flask's hooks must be called, as those that check permissions
    lane = Lane(routes, matcher(flask), bridge, threads)
    straight = server_app.behind_security(app, lane, permissions=has_check is not None)
    if straight is None:
        _logger.warning("MLflow %s has other middleware: requests take MLflow's way.", VERSION)

    def is_elsewhere(method: str, path: str) -> bool:
        checked = has_check is not None and has_check(method, path)
        return checked or server_app.is_native(app, method, path)

    shorter = None if has_check is not None else server_app.without_waiting_middleware(app)
    endpoint = span_endpoint(app)
    spans = None if endpoint is None else server_app.behind_security(app, endpoint)
    return Front(
        Ways(app, straight, spans, shorter),
        frozenset(rule.rule for rule in flask.url_map.iter_rules() if not rule.arguments),
        lambda scope: lane.find(scope) is not None,
        is_elsewhere,
        lambda scope: endpoint is not None and endpoint.takes(scope),
        server_app.gateway_prefix(),
        threads,
    )
