"""Job functions for servers that tests start; they wait for files, so that tests can look."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import mlflow
from mlflow.entities import _job
from mlflow.server.jobs import TransientError, job, progress
from mlflow.utils.workspace_context import get_request_workspace

SECONDS = 300


def report(step: int, steps: int) -> None:
    """Report a step, in a release that has progress."""
    update_job_progress = vars(progress).get("update_job_progress")
    if update_job_progress is not None:
        made = vars(_job)["JobProgress"]("counting", step, steps, "steps")
        update_job_progress(f"step {step}", made)


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(path)
        time.sleep(0.1)


def note_start(folder: str) -> int:
    """Note the process of this job; how often it was started."""
    path = Path(folder, "starts")
    with path.open("a") as starts:
        starts.write(f"{os.getpid()}\n")
    return len(path.read_text().split())


@job(name="count", max_workers=2)
def count(folder: str, steps: int) -> dict[str, Any]:
    """Take a step whenever a file says so, and report it."""
    note_start(folder)
    for step in range(1, steps + 1):
        wait_for(Path(folder, f"step {step}"))
        report(step, steps)
    wait_for(Path(folder, "end"))
    return {"steps": steps}


@job(name="settle", max_workers=2)
def settle(experiment: str) -> dict[str, Any]:
    """Create an experiment, in the workspace of the job."""
    experiment_id = mlflow.create_experiment(experiment)
    return {"workspace": get_request_workspace(), "experiment_id": experiment_id}


@job(name="stumble", max_workers=1)
def stumble(folder: str, times: int) -> dict[str, Any]:
    """Fail some times before it succeeds."""
    starts = note_start(folder)
    if starts <= times:
        raise TransientError(RuntimeError(f"start {starts}"))
    return {"starts": starts}
