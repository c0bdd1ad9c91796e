"""MLflow's own sample data, put into a server by MLflow's own command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from mlflow import MlflowClient
from mlflow.demo import DEMO_EXPERIMENT_NAME

from tests.e2e.processes import PROGRAM_SECONDS, environment

# MLflow sends traces behind the program's back, and its demo links prompts to some of them at once:
# on a busy machine that comes too early, with every store. The demo notes it and goes on.
AT_ONCE = {"MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false"}
# The demo swallows its errors, and tells them at this level only.
TALKATIVE = {"MLFLOW_LOGGING_LEVEL": "DEBUG"}


class Demo(NamedTuple):
    """What the command printed and logged, and where its things are."""

    output: str
    experiment_id: str
    runs: dict[str, str]


def run_demo(url: str, folder: Path) -> Demo:
    """Fill a running server as `mlflow demo` does; it must end well."""
    command = [sys.executable, "-m", "mlflow", "demo", "--tracking-uri", url]
    result = subprocess.run(
        [*command, "--no-browser", "--debug"],
        cwd=folder,
        env={**environment(url), **AT_ONCE, **TALKATIVE},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    client = MlflowClient(url)
    experiment = client.get_experiment_by_name(DEMO_EXPERIMENT_NAME)
    assert experiment is not None, result.stdout
    found = client.search_runs([experiment.experiment_id])
    runs = {run.info.run_name: run.info.run_id for run in found}
    return Demo(result.stdout, experiment.experiment_id, runs)
