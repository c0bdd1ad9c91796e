"""Scripts run unchanged, through a server and on the table directly, with the same results."""

from __future__ import annotations

import math
import sqlite3

import pytest
from mlflow import MlflowClient

from tests.e2e.processes import finish_program, mlflow_command, running_server, start_program
from tests.e2e.results import bits, experiment_named, experiment_results


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_server(tmp_path_factory.mktemp("server") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def trained(server, tmp_path_factory):
    """The results of the training script: through the server, and on a file directly."""
    folder = tmp_path_factory.mktemp("training")
    clients = run_on_both("train", server, folder)
    return [experiment_results(client, "training", folder) for client in clients]


def run_on_both(program, server, folder):
    """Run a program through the server and on a file, at the same time; gives their clients."""
    uris = (server.url, f"dynamodb:///{folder}/direct.ddb")
    started = [start_program(program, tracking_uri=uri, folder=folder) for uri in uris]
    for process in started:
        finish_program(process)
    return [MlflowClient(uri, uri) for uri in uris]


def test_a_training_script_gives_the_same_results_through_a_server_and_on_a_file(trained):
    through_server, direct = trained
    assert through_server == direct


def test_everything_a_training_script_logged_is_there(trained):
    for results in trained:
        runs = results["runs"]
        assert results["tags"]["best"] == "fast"
        assert {name: run["status"] for name, run in runs.items()} == {
            **dict.fromkeys(["slow", "fast", "folds", "fold-0", "fold-1", "fold-2"], "FINISHED"),
            **dict.fromkeys(["async", "async, left to the end", "batches"], "FINISHED"),
            "broken": "FAILED",
        }
        fast = runs["fast"]
        assert fast["params"]["note"] == "π ≈ 3.14159 / 100 %"
        assert fast["history"]["loss"] == [(n, bits(math.exp(-0.1 * n))) for n in range(30)]
        assert [fast["latest"][key] for key in ("nan", "inf", "tiny", "minus")] == [
            bits(value) for value in (math.nan, math.inf, 5e-324, -0.0)
        ]
        assert set(fast["files"]) == {"report/summary.txt", "classes.json", "model/weights.bin"}
        assert fast["files"]["model/weights.bin"] == bytes(range(256))
        assert [name for name, _, _ in fast["inputs"]] == ["points"]
        parents = {name: run["tags"].get("mlflow.parentRunId") for name, run in runs.items()}
        assert {name for name, parent in parents.items() if parent == "folds"} == {
            *("fold-0", "fold-1", "fold-2")
        }


def test_what_is_logged_asynchronously_arrives_whole_and_in_order(trained):
    for results in trained:
        waited, left = results["runs"]["async"], results["runs"]["async, left to the end"]
        assert waited["history"]["x"] == [(n, bits(n / 2)) for n in range(200)]
        assert left["history"]["x"] == [(n, bits(n / 2)) for n in range(50)]
        assert waited["params"] == {"a": "1", "b": "two"}
        assert waited["tags"]["kind"] == "async"


def test_batches_arrive_whole(trained):
    for results in trained:
        batches = results["runs"]["batches"]
        assert batches["history"]["m"] == [(n, bits(n * 0.1)) for n in range(2000)]
        assert batches["params"] == {f"p{n}": str(n) for n in range(100)}
        assert {f"t{n}": str(n) for n in range(100)}.items() <= batches["tags"].items()


def test_a_server_keeps_table_and_artifacts_in_its_data_folder(server, trained):
    """Both workers write one file, and SQLite finds nothing wrong with it."""
    assert list((server.data / "artifacts").rglob("weights.bin"))
    file = sqlite3.connect(server.data / "mlflow.ddb")
    assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    file.close()


def test_a_file_can_be_read_directly_while_its_server_runs(server, trained):
    client = MlflowClient(server.table, server.table)
    experiment = experiment_named(client, "training")
    runs = client.search_runs([experiment.experiment_id], "attributes.status = 'FAILED'")
    assert [run.info.run_name for run in runs] == ["broken"]


def test_the_command_line_lists_runs_and_experiments_through_a_server(server, trained):
    assert "training" in mlflow_command("experiments", "search", tracking_uri=server.url)
    experiment = experiment_named(MlflowClient(server.url), "training")
    listed = mlflow_command(
        "runs", "list", "--experiment-id", experiment.experiment_id, tracking_uri=server.url
    )
    assert {"slow", "fast", "broken"} <= set(listed.split())


def test_autologging_gives_the_same_results_through_a_server_and_on_a_file(server, tmp_path):
    through_server, direct = map(autologged, run_on_both("autolog", server, tmp_path))
    assert through_server == direct
    assert through_server["LogisticRegression"]["params"]["max_iter"] == "300"
    assert set(through_server["LogisticRegression"]["metrics"]) >= {"training_accuracy_score"}
    assert through_server["GridSearchCV"]["children"] == 2
    assert through_server["LogisticRegression"]["models"] == 1


def autologged(client):
    """What autologging found out, by the class that was trained; its run names are random."""
    experiment = experiment_named(client, "autolog").experiment_id
    runs = client.search_runs([experiment])
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    return {
        run.data.tags["estimator_name"]: {
            "status": run.info.status,
            "params": run.data.params,
            "metrics": {
                key: bits(value) for key, value in run.data.metrics.items() if "time" not in key
            },
            "datasets": [used.dataset.digest for used in run.inputs.dataset_inputs],
            "models": len(run.outputs.model_outputs),
            "files": sorted(entry.path for entry in client.list_artifacts(run.info.run_id)),
            "children": sum(
                child.data.tags.get("mlflow.parentRunId") == run.info.run_id for child in runs
            ),
        }
        for run in parents
    }
