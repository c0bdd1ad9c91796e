"""Permission checks cache runs and experiments, and nothing else of the tracking store."""

from __future__ import annotations

from typing import Any

import pytest
from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES
from mlflow.exceptions import MlflowException
from mlflow.store.entities.paged_list import PagedList
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.auth.cache import AnswerCache, fresh_answers
from mlflow_dynamodbstore.auth.tracking_lookups import CachedTrackingStore, fill_mcp_page
from tests.table.fakes import FakeTime


class Runs:
    """A tracking store that counts how often it is asked."""

    def __init__(self):
        self.asked = []

    def get_run(self, run_id):
        self.asked.append(run_id)
        if run_id == "none":
            raise MlflowException("not found")
        return self

    def get_experiment(self, experiment_id):
        self.asked.append(experiment_id)
        return experiment_id

    @property
    def info(self):
        return f"info {len(self.asked)}"

    def search_runs(self):
        return "searched"


@pytest.fixture
def store():
    return Runs()


@pytest.fixture
def lookups(store):
    return CachedTrackingStore(store, AnswerCache(seconds=2, clock=FakeTime()))


def test_a_run_and_an_experiment_are_read_once(store, lookups):
    assert lookups.get_run("r").info == lookups.get_run("r").info == "info 1"
    assert lookups.get_experiment("e") == lookups.get_experiment("e") == "e"
    assert store.asked == ["r", "e"]


def test_before_a_request_is_refused_they_are_read_again(store, lookups):
    lookups.get_run("r")
    with fresh_answers():
        lookups.get_run("r")
    assert store.asked == ["r", "r"]


def test_what_one_workspace_found_is_not_found_by_another(store, lookups, monkeypatch):
    monkeypatch.setenv(MLFLOW_ENABLE_WORKSPACES.name, "true")
    for workspace in ("team-a", "team-b"):
        with WorkspaceContext(workspace):
            lookups.get_run("r")
            lookups.get_experiment("e")
    assert store.asked == ["r", "e"] * 2


def test_that_there_is_no_run_is_not_remembered(store, lookups):
    for _ in range(2):
        with pytest.raises(MlflowException, match="not found"):
            lookups.get_run("none")
    assert store.asked == ["none"] * 2


def test_all_else_is_the_stores_own(store, lookups):
    assert lookups.search_runs() == "searched"


# --- pages of MCP servers -------------------------------------------------------------------------


class Servers:
    """A tracking store with servers 0 to 9, whose page tokens name the last row."""

    def __init__(self):
        self.fetched = []

    def search_mcp_servers(self, max_results, page_token):
        self.fetched.append(max_results)
        first = int(page_token.removeprefix("after ")) + 1
        rows = list(range(first, 10))[:max_results]
        more = bool(rows) and rows[-1] < 9
        return PagedList(rows, f"after {rows[-1]}" if more else None)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 10])
def test_pages_of_servers_are_filled_up_with_what_may_be_read(size):
    """As if the other rows did not exist; only the last page may be short."""
    readable = {"0", "3", "4", "8", "9"}
    store = Servers()
    lookups = CachedTrackingStore(store, AnswerCache(clock=FakeTime()))

    def fetch(token):
        return lookups.search_mcp_servers(max_results=size, page_token=token)

    pages = []
    token: str | None = "after -1"
    while token:
        page: list[dict[str, Any]] = []
        token = fill_mcp_page(
            readable.__contains__, page, size, token, fetch, str, lambda row: {"name": str(row)}
        )
        pages.append(page)
    assert [row["name"] for page in pages for row in page] == sorted(readable)
    assert {len(page) for page in pages[:-1]} <= {size}
