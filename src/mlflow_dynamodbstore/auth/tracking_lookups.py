"""The tracking store as MLflow's auth app sees it.

To check a call on a run, MLflow's app reads the run to learn its experiment, and the experiment to
learn its workspace. Neither changes, so both are cached as long as permissions are: a check whose
answers are cached reads nothing.

``auth/filtered_lists.py`` does not filter searches of MCP servers. MLflow fills their pages by
counting rows; :func:`fill_mcp_page` does it with our page tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from mlflow.entities import Experiment, RunInfo
from mlflow.utils.workspace_context import get_request_workspace

from mlflow_dynamodbstore.auth.cache import AnswerCache

_max_rows: ContextVar[int | None] = ContextVar("max_rows", default=None)


@dataclass(frozen=True)
class RunWithInfo:
    """A run without its data: all that a check needs of it."""

    info: RunInfo


class CachedTrackingStore:
    """A tracking store whose runs and experiments are cached."""

    def __init__(self, store: Any, answers: AnswerCache):
        self._store = store
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get_run(self, run_id: str) -> RunWithInfo:
        return self._answers.answer(
            ("run", get_request_workspace(), run_id),
            lambda: RunWithInfo(self._store.get_run(run_id).info),
        )

    def get_experiment(self, experiment_id: str) -> Experiment:
        found: Experiment = self._answers.answer(
            ("experiment", get_request_workspace(), experiment_id),
            lambda: self._store.get_experiment(experiment_id),
        )
        return found

    def search_mcp_servers(self, **arguments: Any) -> Any:
        return self._store.search_mcp_servers(**_limited(arguments))

    def search_mcp_access_endpoints(self, **arguments: Any) -> Any:
        return self._store.search_mcp_access_endpoints(**_limited(arguments))


def fill_mcp_page(
    can_read: Callable[[str], bool],
    readable: list[dict[str, Any]],
    max_results: int,
    next_token: str | None,
    fetch_page: Callable[[str | None], Any],
    get_name: Callable[[Any], str],
    to_dict: Callable[[Any], dict[str, Any]],
) -> str | None:
    """Fill a page with rows that the caller may read; replaces MLflow's own function."""
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
                page = fetch_page(next_token)  # for the token after the last row seen
        next_token = page.token
    return next_token or None


@contextmanager
def _at_most(rows: int) -> Iterator[None]:
    """Limit the searches within this block to so many rows."""
    token = _max_rows.set(rows)
    try:
        yield
    finally:
        _max_rows.reset(token)


def _limited(arguments: dict[str, Any]) -> dict[str, Any]:
    rows = _max_rows.get()
    return arguments if rows is None else arguments | {"max_results": rows}
