"""The tracking store as MLflow's auth app sees it.

To check a call on a run MLflow's app reads the run, for the sake of its experiment, and the
experiment for the sake of its workspace. Neither changes, so both are remembered for the moment
for which permissions are: a check whose answers are remembered reads nothing at all.

Searches of MCP servers are filtered where ``auth/filtered_lists.py`` does not reach.
MLflow fills their pages up by counting rows; :func:`fill_readable` does it with our page tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from mlflow.entities import Experiment, RunInfo
from mlflow.utils.workspace_context import get_request_workspace

from mlflow_dynamodbstore.auth.cache import Recent

_rows: ContextVar[int | None] = ContextVar("rows", default=None)


@dataclass(frozen=True)
class RunOwner:
    """Of a run only what tells where it belongs."""

    info: RunInfo


class Lookups:
    """A tracking store whose runs and experiments are remembered; all else is the store's own."""

    def __init__(self, store: Any, recent: Recent):
        self._store = store
        self._recent = recent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get_run(self, run_id: str) -> RunOwner:
        return self._recent.answer(
            ("run", get_request_workspace(), run_id),
            lambda: RunOwner(self._store.get_run(run_id).info),
        )

    def get_experiment(self, experiment_id: str) -> Experiment:
        found: Experiment = self._recent.answer(
            ("experiment", get_request_workspace(), experiment_id),
            lambda: self._store.get_experiment(experiment_id),
        )
        return found

    def search_mcp_servers(self, **arguments: Any) -> Any:
        return self._store.search_mcp_servers(**_limited(arguments))

    def search_mcp_access_endpoints(self, **arguments: Any) -> Any:
        return self._store.search_mcp_access_endpoints(**_limited(arguments))


def fill_readable(
    can_read: Callable[[str], bool],
    readable: list[dict[str, Any]],
    max_results: int,
    next_token: str | None,
    fetch_page: Callable[[str | None], Any],
    get_name: Callable[[Any], str],
    to_dict: Callable[[Any], dict[str, Any]],
) -> str | None:
    """Fill a page up with what a caller may read, in place of MLflow's own function."""
    while len(readable) < max_results and next_token:
        page = fetch_page(next_token)
        seen = 0
        for row in page:
            if len(readable) == max_results:
                break
            seen += 1
            if can_read(get_name(row)):
                readable.append(to_dict(row))
        if seen < len(page):
            with _at_most(seen):
                page = fetch_page(next_token)  # for the token behind the last row seen
        next_token = page.token
    return next_token or None


@contextmanager
def _at_most(rows: int) -> Iterator[None]:
    """Let searches within give no more than so many rows."""
    token = _rows.set(rows)
    try:
        yield
    finally:
        _rows.reset(token)


def _limited(arguments: dict[str, Any]) -> dict[str, Any]:
    rows = _rows.get()
    return arguments if rows is None else arguments | {"max_results": rows}


def remembering(get_store: Callable[[], Any], recent: Recent) -> Callable[[], Lookups]:
    """What gives a tracking store, so that it gives one that remembers."""
    return lambda: Lookups(get_store(), recent)
