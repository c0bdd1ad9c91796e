"""The native routes: MLflow's views of Flask that we answer without protobuf messages.

A route keeps MLflow's view, which answers a request in an unusual form. A view that a release of
MLflow has under another name stays MLflow's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from flask import request as current
from mlflow.exceptions import MlflowException
from mlflow.version import VERSION
from werkzeug.exceptions import HTTPException

from mlflow_dynamodbstore.mlflow_compat.server import get_tracking_store
from mlflow_dynamodbstore.server import (
    native_experiments,
    native_metrics,
    native_runs,
    native_traces,
)
from mlflow_dynamodbstore.server.answers import Text
from mlflow_dynamodbstore.server.request_reading import Request, Unusual

_logger = logging.getLogger(__name__)

Native = Callable[[Any, Request], Text]
"""Answers a request to a store with JSON. It raises ``Unusual`` before it calls the store."""

NATIVE: Mapping[str, Native] = {
    "_create_run": native_runs.create_run,
    "_update_run": native_runs.update_run,
    "_get_run": native_runs.get_run,
    "_log_batch": native_runs.log_batch,
    "_log_metric": native_runs.log_metric,
    "_log_param": native_runs.log_param,
    "_set_tag": native_runs.set_tag,
    "_search_runs": native_runs.search_runs,
    "_get_experiment": native_experiments.get_experiment,
    "_get_experiment_by_name": native_experiments.get_experiment_by_name,
    "_get_metric_history": native_metrics.get_metric_history,
    "get_metric_history_bulk_interval_handler": native_metrics.get_metric_history_bulk_interval,
    "serve_get_metric_history_bulk_interval": native_metrics.get_metric_history_bulk_interval,
    "_search_traces_v3": native_traces.search_traces,
    "_get_trace": native_traces.get_trace,
    "_get_trace_info_v3": native_traces.get_trace_info,
}
"""By the names that MLflow has for its views."""


@dataclass(frozen=True)
class Route:
    """A native route, by one of its paths. A path with an argument ends where that begins."""

    view: str
    native: Native
    method: str
    path: str
    has_argument: bool

    def answer(self, request: Request) -> tuple[int, bytes]:
        """Status and JSON of the answer. Raises ``Unusual`` before anything was done."""
        return answer(self.view, self.native, request)


def answer(view: str, native: Native, request: Request) -> tuple[int, bytes]:
    """Status and JSON of the answer of a native route."""
    try:
        found = native(get_tracking_store(), request)
    except MlflowException as error:
        return failure(view, error)
    return 200, found.encode("ascii")


def failure(view: str, error: MlflowException) -> tuple[int, bytes]:
    """The answer to a call that was refused; our own faults are logged as MLflow logs them."""
    status: int = error.get_http_status_code()
    if status >= 500:
        debug = _logger.isEnabledFor(logging.DEBUG)
        hint = "" if debug else ". Set MLFLOW_LOGGING_LEVEL=DEBUG for traceback."
        _logger.error("Error in %s: %s%s", view, error, hint, exc_info=debug)
    return status, error.serialize_as_json().encode()


def routes_of(flask: Any) -> Iterator[Route]:
    """The native routes of MLflow's Flask app, under all their paths."""
    for rule in flask.url_map.iter_rules():
        native = NATIVE.get(rule.endpoint)
        if native is None:
            continue
        path, _, argument = rule.rule.partition("<")
        for method in rule.methods & {"GET", "POST"}:
            yield Route(rule.endpoint, native, method, path, bool(argument))


def matcher(flask: Any) -> Callable[[str, str], tuple[str, str] | None]:
    """The view that Flask finds for a method and a path, and the one argument in the path."""
    rules = flask.url_map.bind("localhost")

    def matched(method: str, path: str) -> tuple[str, str] | None:
        try:
            view, arguments = rules.match(path, method)
        except HTTPException:  # no such path, another method, or a redirection
            return None
        return (view, str(*arguments.values())) if len(arguments) == 1 else None

    return matched


def install_views(flask: Any) -> None:
    """Let Flask answer by the native routes, before and after which it calls all its hooks."""
    missing = NATIVE.keys() - flask.view_functions.keys()
    if missing:
        _logger.warning("MLflow %s lacks %s: its own answer.", VERSION, ", ".join(sorted(missing)))
    for name, native in NATIVE.items():
        if name not in missing:
            theirs = flask.view_functions[name]
            flask.view_functions[name] = _view(flask, name, native, theirs)


def _view(flask: Any, name: str, native: Native, theirs: Callable[..., Any]) -> Callable[..., Any]:
    """A view that answers natively, or as MLflow's does."""

    def view(**path_arguments: Any) -> Any:
        if len(path_arguments) > 1 or current.method not in ("GET", "POST"):
            return theirs(**path_arguments)
        request = Request(
            current.method,
            current.query_string,
            current.content_type or "",
            current.get_data(cache=True),
            next(iter(path_arguments.values()), ""),
        )
        try:
            status, body = answer(name, native, request)
        except Unusual:
            return theirs(**path_arguments)
        return flask.response_class(body, status=status, mimetype="application/json")

    return view
