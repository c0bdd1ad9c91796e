"""What the pages show: two trainings' worth of runs, a model, traces and a prompt."""

from __future__ import annotations

import math
import random
from contextlib import suppress
from typing import NamedTuple

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

RUNS = 12
STEPS = 40


class Sample(NamedTuple):
    """What a test must know to find it again."""

    experiment_id: str
    best: str
    runs: list[str]
    model: str
    prompt: str
    trace_id: str
    failed_trace_id: str


def fill(url: str) -> Sample:
    """Everything through the server, as a user's scripts would send it."""
    client = MlflowClient(url)
    client.create_experiment("digits: linear models")
    experiment_id = client.create_experiment("fashion: convolutional nets")
    runs = {log_training(client, experiment_id, n): final_loss(n) for n in range(RUNS)}
    best = min(runs, key=lambda run_id: runs[run_id])
    return Sample(
        experiment_id,
        best,
        list(runs),
        register(client, best),
        write_prompt(client),
        trace(url, experiment_id),
        failed_trace(),
    )


def final_loss(number: int) -> float:
    return 0.08 + 0.05 * (number * 7 % RUNS)


def log_training(client: MlflowClient, experiment_id: str, number: int) -> str:
    rng = random.Random(number)
    tags = {"mlflow.source.name": "train.py", "stage": "candidate" if number % 3 else "baseline"}
    run = client.create_run(experiment_id, tags=tags, run_name=f"net-{number:02}")
    run_id: str = run.info.run_id
    params = [
        Param("learning_rate", str(0.001 * (1 + number % 4))),
        Param("layers", str(2 + number % 3)),
    ]
    begun, points = run.info.start_time, []
    for step in range(STEPS):
        loss = final_loss(number) + math.exp(-step / 8) * (1 + 0.1 * rng.random())
        at = begun + 1000 * step
        points += [Metric("loss", loss, at, step), Metric("accuracy", 1 - loss / 2, at, step)]
    points.append(Metric("loss", final_loss(number), begun + 1000 * STEPS, STEPS))
    client.log_batch(run_id, points, params, [RunTag("team", "vision")])
    client.set_terminated(run_id)
    return run_id


def register(client: MlflowClient, run_id: str) -> str:
    name = "fashion-classifier"
    client.create_registered_model(name, description="Tells shirts from shoes.")
    for _ in range(2):
        client.create_model_version(name, f"runs:/{run_id}/model", run_id)
    client.set_registered_model_alias(name, "champion", "2")
    return name


def write_prompt(client: MlflowClient) -> str:
    name = "summarize-review"
    for words in ("one sentence", "three bullet points"):
        client.register_prompt(name, f"Summarize this review in {words}: {{{{review}}}}")
    client.set_prompt_alias(name, "production", 2)
    return name


def trace(url: str, experiment_id: str) -> str:
    """A trace of nested spans, sent by MLflow's tracing."""
    mlflow.set_tracking_uri(url)
    mlflow.set_experiment(experiment_id=experiment_id)
    for question in ("Is it a boot?", "Which sizes are left?", "What goes with a red coat?"):
        with mlflow.start_span("answer", span_type="CHAIN") as root:
            root.set_inputs({"question": question})
            with mlflow.start_span("look up", span_type="RETRIEVER") as span:
                span.set_outputs(["ankle boot", "rain boot"])
            with mlflow.start_span("generate", span_type="LLM") as span:
                span.set_inputs({"messages": [{"role": "user", "content": question}]})
                span.set_outputs({"content": "Yes, an ankle boot."})
            root.set_outputs({"answer": "Yes, an ankle boot."})
    mlflow.flush_trace_async_logging()
    written: str = root.trace_id
    return written


def failed_trace() -> str:
    """A trace of decorated functions, the innermost of which raises."""

    @mlflow.trace(name="reserve", span_type="TOOL")
    def reserve(size: int) -> None:
        raise LookupError(f"size {size} is sold out")

    @mlflow.trace(name="take order")
    def take_order(size: int) -> None:
        reserve(size)

    with suppress(LookupError):
        take_order(44)
    mlflow.flush_trace_async_logging()
    written = mlflow.get_last_active_trace_id()
    assert written is not None
    return written
