"""The app ``dynamodb``: ``mlflow server --app-name dynamodb``."""

from __future__ import annotations

import functools
import logging
from typing import Any

from mlflow.version import VERSION
from starlette.types import ASGIApp

from mlflow_dynamodbstore.mlflow_compat import server_app
from mlflow_dynamodbstore.server.bridge import Bridge
from mlflow_dynamodbstore.server.front import Front
from mlflow_dynamodbstore.server.threads import Threads

_logger = logging.getLogger(__name__)


def create_app() -> Any:
    """MLflow's app with a better bridge. MLflow's server calls it once in each of its processes.

    Under a WSGI server it is MLflow's Flask app as it is.
    """
    if not server_app.runs_under_uvicorn():
        return server_app.flask_app()
    return improved(server_app.mlflow_app(), server_app.flask_app())


def improved(app: Any, flask: Any, *, permissions: bool = False) -> ASGIApp:
    """MLflow's app behind our front, on our bridge; as it is where it is built in another way.

    ``permissions`` says that it is an app with users.
    """
    threads = Threads("flask")
    if not server_app.replace_bridge(app, lambda wsgi: Bridge(wsgi, threads)):
        _logger.warning(
            "MLflow %s mounts Flask in another way: its own app runs as it is.", VERSION
        )
        plain: ASGIApp = app
        return plain
    straight = server_app.behind_security(app, Bridge(flask, threads))
    if straight is None and not permissions:
        _logger.warning("MLflow %s has other middleware: requests take MLflow's own way.", VERSION)
    rules = [rule.rule for rule in flask.url_map.iter_rules() if not rule.arguments]
    return Front(app, straight, rules, functools.partial(server_app.is_native, app))
