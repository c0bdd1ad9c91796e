"""Workspaces under throttling, lost answers and conflicts: nothing lost, nothing doubled."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow.entities import ViewType, Workspace
from mlflow.entities.workspace import WorkspaceDeletionMode
from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES, MLFLOW_WORKSPACE
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore
from tests.stores import ARTIFACTS
from tests.storms import THREADS, assert_one_made, in_threads, outcome, stormy_table

EACH = 4


def test_workspaces_in_a_storm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every workspace is there once, of one name there is one; what a deleted one held moves."""
    monkeypatch.setenv(MLFLOW_ENABLE_WORKSPACES.name, "true")
    # Threads that choose a workspace at once leave one in the environment; this takes it out.
    monkeypatch.setenv(MLFLOW_WORKSPACE.name, "default")
    with stormy_table(tmp_path) as table:
        store = DynamoDBWorkspaceStore(table.engine.uri, table=table)
        tracking = DynamoDBTrackingStore(table.engine.uri, ARTIFACTS, table=table)

        def work(thread: int) -> str:
            for n in range(EACH):
                name = f"team-{thread}-{n}"
                store.create_workspace(Workspace(name, description="new"))
                store.update_workspace(Workspace(name, description=f"of {thread}"))
                with WorkspaceContext(name):
                    tracking.create_experiment(f"of {name}")
            store.delete_workspace(f"team-{thread}-0", mode=WorkspaceDeletionMode.SET_DEFAULT)
            return outcome(lambda: store.create_workspace(Workspace("same")))

        assert_one_made(in_threads(work))

        there = {one.name: one.description for one in store.list_workspaces()}
        for thread in range(THREADS):
            assert f"team-{thread}-0" not in there
            for n in range(1, EACH):
                assert there.pop(f"team-{thread}-{n}") == f"of {thread}"
        assert set(there) == {"default", "same"}

        for thread in range(THREADS):
            for n in range(EACH):
                with WorkspaceContext("default" if n == 0 else f"team-{thread}-{n}"):
                    found = tracking.search_experiments(
                        view_type=ViewType.ALL, filter_string=f"name = 'of team-{thread}-{n}'"
                    )
                assert len(found) == 1
