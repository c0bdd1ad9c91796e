"""The first to see a request: decides which way it takes through MLflow's app.

MLflow's app passes every request through its middleware for workspaces, timing and permissions,
each with tasks and queues of its own, and compares its path with every route. A request to Flask
needs none of that but its workspace: behind the same security middleware it goes straight to the
native routes or to the bridge. So do spans, to MLflow's endpoint. A request to another route goes
through MLflow's app without the middleware that does nothing for it, or through all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mlflow.exceptions import MlflowException
from mlflow.utils.workspace_context import (
    clear_server_request_workspace,
    set_server_request_workspace,
)
from starlette.types import ASGIApp, Receive, Scope, Send

from mlflow_dynamodbstore.mlflow_compat.server_app import (
    WORKSPACE_HEADER,
    has_workspaces,
    resolve_workspace,
)
from mlflow_dynamodbstore.server.threads import Threads

MOST_KNOWN = 4_096


@dataclass(frozen=True)
class Ways:
    """The ways through MLflow's app; None is a way that this app does not have.

    ``straight`` leads behind the security middleware to Flask, ``spans`` to the endpoint for spans,
    ``shorter`` through MLflow's app without workspaces and timing, and ``whole`` through all of it.
    """

    whole: ASGIApp
    straight: ASGIApp | None
    spans: ASGIApp | None
    shorter: ASGIApp | None


@dataclass
class Front:
    """An ASGI app before MLflow's.

    Flask answers the ``flask_paths`` without parameters and what ``is_native_route`` knows, unless
    ``is_elsewhere`` says that MLflow answers a method of a path without Flask. ``brings_spans``
    says whether a request can go to the endpoint for spans. Answers below ``timed`` are timed.
    """

    ways: Ways
    flask_paths: Collection[str]
    is_native_route: Callable[[Scope], bool]
    is_elsewhere: Callable[[str, str], bool]
    brings_spans: Callable[[Scope], bool]
    timed: str
    threads: Threads

    def __post_init__(self) -> None:
        # Clients may send any method.
        self._is_elsewhere = lru_cache(MOST_KNOWN)(self.is_elsewhere)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope.get("root_path"):
            await self.ways.whole(scope, receive, send)
            return
        asked = next((v for name, v in scope["headers"] if name == WORKSPACE_HEADER), None)
        way = self._way(scope, with_workspaces=asked is not None or has_workspaces())
        if way is self.ways.straight and (asked is not None or has_workspaces()):
            await self._in_workspace(asked, way, scope, receive, send)
        else:
            await way(scope, receive, send)

    def _way(self, scope: Scope, *, with_workspaces: bool) -> ASGIApp:
        if self.ways.straight is not None and self._is_for_flask(scope):
            return self.ways.straight
        if self.ways.shorter is None or with_workspaces or scope["path"].startswith(self.timed):
            return self.ways.whole
        if self.ways.spans is not None and self.brings_spans(scope):
            return self.ways.spans
        return self.ways.shorter

    async def _in_workspace(
        self, asked: bytes | None, way: ASGIApp, scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            workspace = await self._workspace(scope["path"], asked)
        except MlflowException:
            await self.ways.whole(scope, receive, send)  # it answers with the same error
            return
        set_server_request_workspace(workspace)
        try:
            await way(scope, receive, send)
        finally:
            clear_server_request_workspace()

    def _is_for_flask(self, scope: Scope) -> bool:
        path = scope["path"]
        if path not in self.flask_paths:
            return self.is_native_route(scope)
        return not self._is_elsewhere(scope["method"], path)

    async def _workspace(self, path: str, header: bytes | None) -> str | None:
        """The name of a request's workspace; raises MLflow's errors."""
        asked = None if header is None else header.decode("latin-1")
        found: Any = await self.threads.run(lambda: resolve_workspace(path, asked))
        return None if found is None else found.name
