"""The fast lane: native routes answered without Flask, on the event loop where that is faster."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from mlflow_dynamodbstore.mlflow_compat.server import get_tracking_store
from mlflow_dynamodbstore.server.native import Route
from mlflow_dynamodbstore.server.request_reading import Request, Unusual
from mlflow_dynamodbstore.server.requests import read_body, with_body
from mlflow_dynamodbstore.server.threads import OneAtATime, Threads
from mlflow_dynamodbstore.shared.loop_pace import LoopPace, is_file
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore

JSON = (b"content-type", b"application/json")
NOT_FOR_THE_LANE = frozenset({b"origin", b"authorization"})
"""Headers to which Flask's hooks answer."""


@dataclass
class Lane:
    """An ASGI app for the native routes; ``flask`` answers what is unusual.

    ``matched`` tells the view and the argument that Flask finds for a method and a path.
    """

    routes: Iterable[Route]
    matched: Callable[[str, str], tuple[str, str] | None]
    flask: ASGIApp
    threads: Threads
    _exact: dict[tuple[str, str], Route] = field(default_factory=dict)
    _with_argument: dict[tuple[str, str], Route] = field(default_factory=dict)
    _paces: defaultdict[str, LoopPace] = field(default_factory=lambda: defaultdict(LoopPace))

    def __post_init__(self) -> None:
        self._one_at_a_time = OneAtATime("file", self.threads)
        for route in self.routes:
            paths = self._with_argument if route.has_argument else self._exact
            paths[route.method, route.path] = route

    def find(self, scope: Scope) -> tuple[Route, str] | None:
        """The native route of a request, and the argument in its path."""
        method, path = scope["method"], scope["path"]
        route = self._exact.get((method, path))
        if route is not None:
            return route, ""
        beginning, slash, argument = path.rpartition("/")
        route = self._with_argument.get((method, beginning + slash))
        if route is None or self.matched(method, path) != (route.view, argument):
            return None  # another view may have this path for itself
        return route, argument

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = self.find(scope)
        content_type = b""
        for name, value in scope["headers"]:
            if name == b"content-type":
                content_type += value  # two are none that we know
            elif name in NOT_FOR_THE_LANE:
                found = None
                break
        if found is None:
            await self.flask(scope, receive, send)
            return
        route, argument = found
        try:
            body = await read_body(receive)
        except ClientDisconnect:
            return  # nobody waits for an answer, and the request may be half a one
        request = Request(
            route.method, scope["query_string"], content_type.decode("latin-1"), body, argument
        )
        try:
            status, answer = await self._answer(route, request)
        except Unusual:
            await self.flask(scope, with_body(body, receive), send)
            return
        length = str(len(answer)).encode("ascii")
        headers = [JSON, (b"content-length", length)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _answer(self, route: Route, request: Request) -> tuple[int, bytes]:
        if not is_local(get_tracking_store()):
            return await self.threads.run(lambda: route.answer(request))
        pace = self._paces[route.view]
        if not pace.is_short():
            return await self._one_at_a_time.run(lambda: route.answer(request))
        began = time.perf_counter()
        try:
            return route.answer(request)
        finally:
            pace.took(time.perf_counter() - began)


def is_local(store: Any) -> bool:
    """Whether a store keeps its table in a file."""
    return isinstance(store, DynamoDBTrackingStore) and is_file(store.table)
