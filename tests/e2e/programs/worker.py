"""One of several processes that log at the same time: to its own run, and to a shared one."""

from __future__ import annotations

import sys

import mlflow
from mlflow import MlflowClient

POINTS = 40


def main(name: str, shared_run: str) -> None:
    client = MlflowClient()
    mlflow.set_experiment("crowd")
    with mlflow.start_run(run_name=f"worker {name}"):
        for step in range(POINTS):
            mlflow.log_metric("own", step, step=step)
            client.log_metric(shared_run, f"from {name}", step, step=step)
            client.log_metric(shared_run, "all", step, step=step, timestamp=int(name))
        client.log_param(shared_run, f"param {name}", name)
        client.set_tag(shared_run, f"tag {name}", name)


if __name__ == "__main__":
    main(*sys.argv[1:])
