"""The operator's page of a server: ``/dynamodb``, for admins where the server has users."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Any

from mlflow_dynamodbstore.mlflow_compat.server import get_tracking_store
from mlflow_dynamodbstore.mlflow_compat.server_app import static_prefix
from mlflow_dynamodbstore.shared.counter_files import ServerCounters
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.upkeep.operator_page import operator_page

PATH = "/dynamodb"
ENDPOINT = "dynamodb_operator_page"
KEPT_SECONDS = 10.0
"""How long a page is shown again: many who look cost as much as one."""
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    # The page needs nothing from elsewhere, and sends nothing there.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    ),
}


class OperatorPage:
    """Answers the requests for the page."""

    def __init__(
        self,
        counters: Callable[[], ServerCounters],
        is_allowed: Callable[[], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_allowed = is_allowed
        self._counters = counters
        self._monotonic = monotonic
        self._lock = Lock()
        self._shown: tuple[float, str] | None = None

    def __call__(self) -> tuple[str, int, dict[str, str]]:
        if not self._is_allowed():
            return "Only admins may see this page.", 403, {"Content-Type": "text/plain"}
        store = get_tracking_store()
        if not isinstance(store, DynamoDBTrackingStore):
            return "This server keeps its data elsewhere.", 404, {"Content-Type": "text/plain"}
        return self._page(store.table), 200, _HEADERS

    def _page(self, table: Table) -> str:
        with self._lock:  # one of those who look at once reads, the others get the same
            now = self._monotonic()
            if self._shown is None or now - self._shown[0] > KEPT_SECONDS:
                self._shown = now, operator_page(table, self._counters())
            return self._shown[1]


def install_page(
    flask: Any,
    counters: Callable[[], ServerCounters],
    is_allowed: Callable[[], bool] = lambda: True,
) -> None:
    """Let MLflow's Flask app answer :data:`PATH` below its prefix, behind all its checks."""
    if ENDPOINT not in flask.view_functions:
        view = OperatorPage(counters, is_allowed)
        flask.add_url_rule(static_prefix() + PATH, ENDPOINT, view, methods=["GET"])
