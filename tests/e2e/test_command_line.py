"""MLflow's own commands on a table: listing, deleting, restoring, and deleting for good."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from tests.e2e.processes import mlflow_command, mlflow_process
from tests.e2e.results import experiment_named


@pytest.fixture
def place(tmp_path):
    """The URI of a new file, as commands are told it."""
    return f"dynamodb:///{tmp_path}/mlflow.ddb"


@pytest.fixture
def client(place):
    return MlflowClient(place, place)


@pytest.fixture
def runs(client, tmp_path):
    """Three finished runs with a file each, by their names."""
    experiment = client.create_experiment("commands", artifact_location=str(tmp_path / "files"))
    created = {}
    for name in ("first", "second", "third"):
        run_id = created[name] = client.create_run(experiment, run_name=name).info.run_id
        client.log_text(run_id, name, "name.txt")
        client.log_metric(run_id, "m", 1.0)
        client.set_terminated(run_id)
    return created


def artifact_of(client: MlflowClient, run_id: str) -> Path:
    return Path(client.get_run(run_id).info.artifact_uri.removeprefix("file://")) / "name.txt"


def test_runs_are_listed_deleted_and_restored(client, runs, place):
    experiment = experiment_named(client, "commands").experiment_id
    listing = ("runs", "list", "--experiment-id", experiment)
    assert {"first", "second", "third"} <= set(mlflow_command(*listing, tracking_uri=place).split())

    mlflow_command("runs", "delete", "--run-id", runs["second"], tracking_uri=place)
    listed = mlflow_command(*listing, tracking_uri=place).split()
    assert "second" not in listed
    assert {"first", "third"} <= set(listed)
    deleted = mlflow_command(*listing, "--view", "deleted_only", tracking_uri=place).split()
    assert "second" in deleted

    mlflow_command("runs", "restore", "--run-id", runs["second"], tracking_uri=place)
    assert "second" in mlflow_command(*listing, tracking_uri=place).split()


def test_experiments_are_created_found_renamed_and_deleted(client, place):
    mlflow_command("experiments", "create", "--experiment-name", "new", tracking_uri=place)
    experiment = experiment_named(client, "new")
    mlflow_command(
        *("experiments", "rename", "--experiment-id", experiment.experiment_id),
        *("--new-name", "renamed"),
        tracking_uri=place,
    )
    found = mlflow_command("experiments", "search", tracking_uri=place)
    assert "renamed" in found.split()
    mlflow_command(
        "experiments", "delete", "--experiment-id", experiment.experiment_id, tracking_uri=place
    )
    assert client.get_experiment(experiment.experiment_id).lifecycle_stage == "deleted"
    assert "renamed" not in mlflow_command("experiments", "search", tracking_uri=place).split()


def test_gc_deletes_deleted_runs_for_good_with_their_artifacts(client, runs, place, tmp_path):
    kept, gone = artifact_of(client, runs["first"]), artifact_of(client, runs["second"])
    assert gone.read_text() == "second"
    client.delete_run(runs["second"])

    command = ("gc", "--backend-store-uri", place)
    assert runs["second"] in mlflow_process(*command, tracking_uri=place, folder=tmp_path)
    assert not gone.exists()
    assert kept.read_text() == "first"
    with pytest.raises(MlflowException, match="not found"):
        client.get_run(runs["second"])
    assert client.get_run(runs["first"]).data.metrics == {"m": 1.0}


def test_gc_deletes_a_deleted_experiment_with_its_runs_and_frees_its_name(client, runs, place):
    experiment = experiment_named(client, "commands").experiment_id
    client.delete_experiment(experiment)
    mlflow_command("gc", "--backend-store-uri", place, tracking_uri=place)
    with pytest.raises(MlflowException, match="No Experiment"):
        client.get_experiment(experiment)
    for run_id in runs.values():
        with pytest.raises(MlflowException, match="not found"):
            client.get_run(run_id)
    assert client.create_experiment("commands") != experiment


def test_gc_leaves_alone_what_was_deleted_lately(client, runs, place):
    client.delete_run(runs["second"])
    command = ("gc", "--backend-store-uri", place, "--older-than", "1d")
    mlflow_command(*command, tracking_uri=place)
    client.restore_run(runs["second"])
    assert client.get_run(runs["second"]).data.metrics == {"m": 1.0}
