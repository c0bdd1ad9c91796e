"""``experiment``: what an operator does with the volumes of an experiment."""

from __future__ import annotations

import pytest
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.cli.exits import NO_TABLE

pytestmark = pytest.mark.one_volume(reason="the tests count volumes")


def volumes(run, *arguments):
    return [one["volume"] for one in run.json("experiment", "volumes", *arguments)]


def test_an_experiment_begins_with_one_volume_and_is_spread(run, store):
    store.create_experiment("training")
    assert volumes(run, "training") == [0]
    spread = run.json("experiment", "spread", "training", "--volumes", "3")
    assert [one["volume"] for one in spread] == [0, 1, 2]
    assert all(one["closed"] is None for one in spread)
    assert volumes(run, "training") == [0, 1, 2]
    assert "open" in run("experiment", "volumes", "training").stdout


def test_spreading_again_opens_no_more_than_asked_for(run, store):
    store.create_experiment("training")
    run("experiment", "spread", "training", "--volumes", "3")
    run("experiment", "spread", "training", "--volumes", "2")
    assert volumes(run, "training") == [0, 1, 2]


def test_an_experiment_of_another_workspace_is_named_with_it(run, store, monkeypatch):
    monkeypatch.setenv("MLFLOW_ENABLE_WORKSPACES", "true")
    with WorkspaceContext("team-a"):
        store.create_experiment("training")
    run("experiment", "spread", "training", "--volumes", "2", "--workspace", "team-a")
    assert volumes(run, "training", "--workspace", "team-a") == [0, 1]
    missing = run("experiment", "volumes", "training", code=NO_TABLE)
    assert "no experiment 'training' in the workspace 'default'" in missing.stderr
