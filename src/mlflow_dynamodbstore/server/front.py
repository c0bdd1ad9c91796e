"""The first to see a request: decides which way it takes through MLflow's app.

MLflow's app passes every request through its middleware for workspaces, timing and permissions,
each with tasks and queues of its own, and compares its path with every route. A request to Flask
needs none of that but its workspace: behind the same security middleware it goes straight to the
native routes or to the bridge. All other requests go through MLflow's app as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
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


class Front:
    """An ASGI app before MLflow's.

    ``straight`` leads to Flask behind the security middleware, for the ``flask_paths`` without
    parameters and what ``is_native_route`` knows, unless ``is_elsewhere`` says that MLflow answers
    a method of a path without Flask.
    """

    def __init__(
        self,
        mlflow_app: ASGIApp,
        straight: ASGIApp | None,
        flask_paths: Collection[str],
        is_native_route: Callable[[Scope], bool],
        is_elsewhere: Callable[[str, str], bool],
        threads: Threads,
    ) -> None:
        self._mlflow_app = mlflow_app
        self._straight = straight
        self._flask_paths = frozenset(flask_paths)
        self._is_native_route = is_native_route
        self._is_elsewhere = is_elsewhere
        self._threads = threads
        self._known: dict[tuple[str, str], bool] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        straight = self._straight
        if straight is None or scope["type"] != "http" or not self._goes_straight(scope):
            await self._mlflow_app(scope, receive, send)
            return
        asked = next((v for name, v in scope["headers"] if name == WORKSPACE_HEADER), None)
        if asked is None and not has_workspaces():
            await straight(scope, receive, send)
            return
        try:
            workspace = await self._workspace(scope["path"], asked)
        except MlflowException:
            await self._mlflow_app(scope, receive, send)  # it answers with the same error
            return
        set_server_request_workspace(workspace)
        try:
            await straight(scope, receive, send)
        finally:
            clear_server_request_workspace()

    def _goes_straight(self, scope: Scope) -> bool:
        path = scope["path"]
        if scope.get("root_path"):
            return False
        if path not in self._flask_paths:
            return self._is_native_route(scope)
        asked = scope["method"], path
        elsewhere = self._known.get(asked)
        if elsewhere is None:
            elsewhere = self._known[asked] = self._is_elsewhere(*asked)
        return not elsewhere

    async def _workspace(self, path: str, header: bytes | None) -> str | None:
        """The name of a request's workspace; raises MLflow's errors."""
        asked = None if header is None else header.decode("latin-1")
        found: Any = await self._threads.run(lambda: resolve_workspace(path, asked))
        return None if found is None else found.name
