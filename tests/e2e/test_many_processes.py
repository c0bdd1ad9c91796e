"""Several processes log to one file at once: nobody waits in vain, nothing is lost."""

from __future__ import annotations

from mlflow import MlflowClient

from tests.e2e.processes import finish_program, start_program
from tests.e2e.programs.worker import POINTS

WORKERS = ("1", "2", "3", "4")


def test_nothing_is_lost_when_processes_log_to_one_file_at_once(tmp_path):
    uri = f"dynamodb:///{tmp_path}/mlflow.ddb"
    client = MlflowClient(uri, uri)
    experiment = client.create_experiment("crowd")
    shared = client.create_run(experiment, run_name="shared").info.run_id
    started = [
        start_program("worker", name, shared, tracking_uri=uri, folder=tmp_path) for name in WORKERS
    ]
    output = "".join(finish_program(process) for process in started)
    assert "locked" not in output

    steps = list(range(POINTS))
    runs = {run.info.run_name: run for run in client.search_runs([experiment])}
    assert set(runs) == {"shared", *(f"worker {name}" for name in WORKERS)}
    for name in WORKERS:
        own = runs[f"worker {name}"]
        assert own.info.status == "FINISHED"
        assert logged(client, own.info.run_id, "own") == steps
        assert logged(client, shared, f"from {name}") == steps
    data = runs["shared"].data
    assert data.params == {f"param {name}": name for name in WORKERS}
    assert {f"tag {name}": name for name in WORKERS}.items() <= data.tags.items()
    together = client.get_metric_history(shared, "all")
    assert sorted((point.step, point.timestamp) for point in together) == [
        (step, int(name)) for step in steps for name in WORKERS
    ]


def logged(client, run_id, key):
    return [point.step for point in client.get_metric_history(run_id, key)]
