"""MLflow's endpoint for spans through OTLP, called without FastAPI's routing.

For each request FastAPI compares the path with every route, and works out anew which headers the
endpoint wants: a third of the processor time of a trace. Here the endpoint is called with them.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.params import Header
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from mlflow_dynamodbstore.mlflow_compat.names import missing_names, private_later, unavailable
from mlflow_dynamodbstore.mlflow_compat.server_app import is_native

OTEL_API = "mlflow.server.otel_api"
METHOD_AND_PATH = ("POST", "/v1/traces")

export_traces: Any = private_later(
    OTEL_API, "export_traces", unavailable("Taking spans without FastAPI's routing")
)


@dataclass(frozen=True)
class _Header:
    """A header that the endpoint wants."""

    argument: str
    name: str
    is_required: bool
    default: str | None


class SpanEndpoint:
    """An ASGI app that calls MLflow's endpoint with its headers."""

    def __init__(self, app: FastAPI, headers: list[_Header]) -> None:
        self._app = app
        self._headers = headers
        self._required = {one.name.encode("latin-1") for one in headers if one.is_required}
        self._handling: ASGIApp = ExceptionMiddleware(
            self._answer, handlers=app.exception_handlers, debug=app.debug
        )

    def takes(self, scope: Scope) -> bool:
        """Whether a request brings spans, and the headers that must be there."""
        if (scope["method"], scope["path"]) != METHOD_AND_PATH:
            return False
        return self._required <= {name for name, _ in scope["headers"]}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self._app  # as the app itself does
        await self._handling(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        given = request.headers
        arguments = {one.argument: given.get(one.name, one.default) for one in self._headers}
        response = await export_traces(request, **arguments)
        await response(scope, receive, send)


def span_endpoint(app: FastAPI) -> SpanEndpoint | None:
    """The endpoint of an app; None if it wants anything but its request and texts of headers."""
    if missing_names(OTEL_API) or not is_native(app, *METHOD_AND_PATH):
        return None
    endpoint = importlib.import_module(OTEL_API).export_traces
    headers = []
    for name, parameter in inspect.signature(endpoint).parameters.items():
        header = parameter.default
        if parameter.annotation is Request:
            continue
        if not isinstance(header, Header) or parameter.annotation not in (str, str | None):
            return None
        required = header.is_required()
        alias = (header.alias or name.replace("_", "-")).lower()
        headers.append(_Header(name, alias, required, None if required else header.default))
    return SpanEndpoint(app, headers)
