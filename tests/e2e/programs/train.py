"""A training script as people write them: it knows MLflow, and nothing of where MLflow keeps it."""

from __future__ import annotations

import contextlib
import math
import tempfile
from pathlib import Path

import mlflow
import pandas as pd
from mlflow import MlflowClient
from mlflow.data.pandas_dataset import from_pandas
from mlflow.entities import Metric, Param, RunTag

EPOCHS = 30


def train(name: str, rate: float) -> None:
    with mlflow.start_run(run_name=name, tags={"team": "risk"}):
        mlflow.log_params({"rate": rate, "layers": [64, 32], "note": "π ≈ 3.14159 / 100 %"})
        table = pd.DataFrame({"x": [1.0, 2.0], "y": [0, 1]})
        mlflow.log_input(from_pandas(table, name="points"), context="training")
        for epoch in range(EPOCHS):
            mlflow.log_metric("loss", math.exp(-rate * epoch), step=epoch)
        mlflow.log_metrics({"nan": math.nan, "inf": math.inf, "tiny": 5e-324, "minus": -0.0})
        mlflow.log_text("all went well\n", "report/summary.txt")
        mlflow.log_dict({"classes": [0, 1]}, "classes.json")
        with tempfile.TemporaryDirectory() as folder:
            weights = Path(folder) / "weights.bin"
            weights.write_bytes(bytes(range(256)))
            mlflow.log_artifact(str(weights), "model")


def cross_validate() -> None:
    with mlflow.start_run(run_name="folds"):
        for fold in range(3):
            with mlflow.start_run(run_name=f"fold-{fold}", nested=True):
                mlflow.log_param("fold", fold)
                mlflow.log_metric("accuracy", 0.9 + fold / 100)
        mlflow.log_metric("accuracy", 0.91)
        mlflow.set_tag("mlflow.note.content", "three folds")


def log_without_waiting() -> None:
    """Asynchronous logging, which a worker thread sends in the background."""
    with mlflow.start_run(run_name="async"):
        for step in range(200):
            mlflow.log_metric("x", step / 2, step=step, synchronous=False)
        mlflow.log_params({"a": 1, "b": "two"}, synchronous=False)
        sent = mlflow.set_tags({"kind": "async"}, synchronous=False)
        assert sent is not None
        sent.wait()
        mlflow.flush_async_logging()
    # What is still under way when the script ends must arrive, too.
    with mlflow.start_run(run_name="async, left to the end"):
        for step in range(50):
            mlflow.log_metric("x", step / 2, step=step, synchronous=False)


def log_in_batches(experiment_id: str) -> None:
    client = MlflowClient()
    run_id = client.create_run(experiment_id, run_name="batches").info.run_id
    for start in range(0, 2000, 500):
        points = [Metric("m", n * 0.1, 1_700_000_000_000 + n, n) for n in range(start, start + 500)]
        client.log_batch(run_id, metrics=points)
    client.log_batch(
        run_id,
        params=[Param(f"p{n}", str(n)) for n in range(100)],
        tags=[RunTag(f"t{n}", str(n)) for n in range(100)],
    )
    client.set_terminated(run_id)


def fail() -> None:
    with contextlib.suppress(ZeroDivisionError), mlflow.start_run(run_name="broken"):
        mlflow.log_metric("loss", 1 / 0)


def main() -> None:
    experiment = mlflow.set_experiment("training")
    train("slow", 0.01)
    train("fast", 0.1)
    cross_validate()
    log_without_waiting()
    log_in_batches(experiment.experiment_id)
    fail()
    best = mlflow.search_runs(
        experiment_names=["training"],
        filter_string="tags.team = 'risk' AND metrics.loss < 0.5",
        order_by=["metrics.loss ASC"],
        output_format="list",
    )
    assert [run.info.run_name for run in best] == ["fast"], best
    mlflow.set_experiment_tag("best", best[0].info.run_name)


if __name__ == "__main__":
    main()
