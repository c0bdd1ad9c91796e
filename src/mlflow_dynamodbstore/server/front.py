"""The first to see a request: decides which way it takes through MLflow's app.

MLflow's app passes every request through its middleware for workspaces, timing and permissions,
each with tasks and queues of its own, and compares its path with every route. A request to Flask
needs none of that where there are no workspaces: behind the same security middleware it goes
straight to the bridge. All other requests go through MLflow's app as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from mlflow_dynamodbstore.mlflow_compat.server_app import WORKSPACE_HEADER, has_workspaces


class Front:
    """An ASGI app before MLflow's.

    ``straight`` leads to Flask behind the security middleware, for the ``flask_paths`` without
    parameters that ``is_native`` says are not answered elsewhere.
    """

    def __init__(
        self,
        mlflow_app: ASGIApp,
        straight: ASGIApp | None,
        flask_paths: Collection[str],
        is_native: Callable[[str, str], bool],
    ) -> None:
        self._mlflow_app = mlflow_app
        self._straight = straight
        self._flask_paths = frozenset(flask_paths)
        self._is_native = is_native
        self._known: dict[tuple[str, str], bool] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        straight = self._straight
        if straight is not None and scope["type"] == "http" and self._goes_straight(scope):
            await straight(scope, receive, send)
        else:
            await self._mlflow_app(scope, receive, send)

    def _goes_straight(self, scope: Scope) -> bool:
        path = scope["path"]
        if path not in self._flask_paths or scope.get("root_path") or has_workspaces():
            return False
        if any(name == WORKSPACE_HEADER for name, _ in scope["headers"]):
            return False
        asked = scope["method"], path
        native = self._known.get(asked)
        if native is None:
            native = self._known[asked] = self._is_native(*asked)
        return not native
