"""What an experiment holds, in a form that is equal wherever the same script ran."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts
from mlflow.entities import Experiment, Run
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

WHERE_AND_WHEN = {"mlflow.user", "mlflow.source.name", "mlflow.source.git.commit"}


def experiment_results(client: MlflowClient, name: str, folder: Path) -> dict[str, Any]:
    """An experiment's tags, and its runs by their names."""
    experiment = experiment_named(client, name)
    runs = client.search_runs([experiment.experiment_id])
    names = {run.info.run_id: run.info.run_name for run in runs}
    assert len(set(names.values())) == len(runs), "the runs of a script have different names"
    return {
        "tags": experiment.tags,
        "runs": {run.info.run_name: run_results(client, run, names, folder) for run in runs},
    }


def experiment_named(client: MlflowClient, name: str) -> Experiment:
    """The experiment of this name, which must exist."""
    experiment = client.get_experiment_by_name(name)
    assert experiment is not None
    return experiment


def run_results(
    client: MlflowClient, run: Run, names: dict[str, str], folder: Path
) -> dict[str, Any]:
    """All that was logged to a run; other runs are called by their names."""
    tags = {key: value for key, value in run.data.tags.items() if key not in WHERE_AND_WHEN}
    if MLFLOW_PARENT_RUN_ID in tags:
        tags[MLFLOW_PARENT_RUN_ID] = names[tags[MLFLOW_PARENT_RUN_ID]]
    # A run found by a search and the same run asked for by its id must not differ.
    assert as_text(client.get_run(run.info.run_id)) == as_text(run)
    return {
        "status": run.info.status,
        "stage": run.info.lifecycle_stage,
        "params": run.data.params,
        "tags": tags,
        "latest": {key: bits(value) for key, value in run.data.metrics.items()},
        "history": {key: history(client, run.info.run_id, key) for key in run.data.metrics},
        "inputs": [
            (used.dataset.name, used.dataset.digest, [(tag.key, tag.value) for tag in used.tags])
            for used in (run.inputs.dataset_inputs if run.inputs else ())
        ],
        "files": files(client, run.info.run_id, folder),
    }


def history(client: MlflowClient, run_id: str, key: str) -> list[tuple[int, str]]:
    """Steps and values of a metric, in order."""
    points = client.get_metric_history(run_id, key)
    return [(point.step, bits(point.value)) for point in points]


def files(client: MlflowClient, run_id: str, folder: Path) -> dict[str, bytes]:
    """The artifacts of a run, by their paths."""
    found = {}
    for path in sorted(paths_under(client, run_id, None)):
        local = download_artifacts(
            run_id=run_id,
            artifact_path=path,
            dst_path=str(folder / run_id),
            tracking_uri=client.tracking_uri,
        )
        found[path] = Path(local).read_bytes()
    return found


def paths_under(client: MlflowClient, run_id: str, folder: str | None) -> list[str]:
    """The paths of all files below a folder of a run's artifacts."""
    paths = []
    for entry in client.list_artifacts(run_id, folder):
        paths += paths_under(client, run_id, entry.path) if entry.is_dir else [entry.path]
    return paths


def as_text(run: Run) -> str:
    """A run in one text, in which NaN equals NaN."""
    return json.dumps(run.to_dictionary(), sort_keys=True)


def bits(value: float) -> str:
    """A float by its bits, since NaN does not equal itself and -0.0 equals 0.0."""
    return struct.pack(">d", value).hex()
