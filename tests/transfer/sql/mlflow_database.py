"""A database of MLflow's own with something of everything, written by MLflow itself."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mlflow.entities import (
    Dataset,
    DatasetInput,
    ExperimentTag,
    InputTag,
    IssueSeverity,
    LoggedModelInput,
    LoggedModelOutput,
    LoggedModelParameter,
    LoggedModelStatus,
    LoggedModelTag,
    Metric,
    Param,
    RunStatus,
    RunTag,
)
from mlflow.entities.assessment import Expectation, Feedback
from mlflow.entities.assessment_error import AssessmentError
from mlflow.entities.assessment_source import AssessmentSource
from mlflow.entities.model_registry import ModelVersionTag, RegisteredModelTag
from mlflow.entities.webhook import WebhookAction, WebhookEntity, WebhookEvent, WebhookStatus
from mlflow.prompt.constants import IS_PROMPT_TAG_KEY
from mlflow.store.jobs.sqlalchemy_store import SqlAlchemyJobStore
from mlflow.store.model_registry.sqlalchemy_store import SqlAlchemyStore as SqlRegistry
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore as SqlTracking
from mlflow.tracing.constant import SpanAttributeKey

from tests.sql import empty_database
from tests.traces.making import NOON, make_info, make_prompt, make_span, make_spans, trace_id
from tests.transfer.sql import other_stores

URL = "https://93.184.215.14/hook"
ARTIFACTS = "s3://bucket/root"
LONG = "long " * 800
LARGE = 36
"""Versions that are too many for one transaction, three items each."""
ODD = "k: a/b - 50. ż"
HUMAN = AssessmentSource("HUMAN", "ada@example.com")


@dataclass
class Theirs:
    """A database with MLflow's stores on it, opened when they are first asked."""

    uri: str

    @cached_property
    def tracking(self) -> SqlTracking:
        return SqlTracking(self.uri, ARTIFACTS)

    @cached_property
    def jobs(self) -> SqlAlchemyJobStore:
        return SqlAlchemyJobStore(self.uri)

    @cached_property
    def registry(self) -> SqlRegistry:
        return SqlRegistry(self.uri)


def filled(folder: Path) -> Theirs:
    """A database with something of everything."""
    theirs = Theirs(empty_database(folder))
    first, gone = _experiments(theirs)
    runs = _runs(theirs, first)
    _deleted_experiment(theirs, gone)
    model = _logged_models(theirs, first, runs)
    _inputs(theirs, runs, model)
    _traces(theirs, first, runs[0])
    _registry(theirs, runs[0])
    _webhooks(theirs)
    _evaluation(theirs, first, runs[0])
    other_stores.fill(theirs.tracking, theirs.jobs, first)
    return theirs


def _experiments(theirs: Theirs) -> tuple[str, str]:
    store = theirs.tracking
    first = store.create_experiment(
        "first", tags=[ExperimentTag("team", "blue"), ExperimentTag(ODD, LONG)]
    )
    store.create_experiment("before it was renamed", artifact_location="file:///elsewhere")
    store.rename_experiment("2", "renamed ü")
    gone = store.create_experiment("gone")
    store.set_experiment_tag("0", ExperimentTag("of the default", "yes"))
    return first, gone


def _runs(theirs: Theirs, experiment_id: str) -> list[str]:
    store = theirs.tracking
    runs = []
    for n in range(6):
        tags = [RunTag("n", str(n)), RunTag("mlflow.note.content", LONG), RunTag(ODD, "")]
        run = store.create_run(experiment_id, f"user {n % 2}", NOON + n, tags, f"run {n}")
        run_id = run.info.run_id
        runs.append(run_id)
        params = [Param(f"p{k}", f"{n}.{k}") for k in range(n)]
        store.log_batch(run_id, _points(n), [*params, Param(ODD, LONG)], [])
    many = [Metric("many", math.sin(n), NOON + n, n) for n in range(2_500)]
    for n in range(0, len(many), 1_000):
        store.log_batch(runs[1], many[n : n + 1_000], [], [])
    late = [Metric("late", float(n), NOON - n, n) for n in range(20)]
    store.log_batch(runs[1], late, [], [])
    for run_id, status in zip(runs, ("FINISHED", "FAILED", "KILLED", "FINISHED"), strict=False):
        store.update_run_info(run_id, RunStatus.from_string(status), NOON + 99, None)
    store.delete_run(runs[3])
    store.create_run("0", "ada", NOON, [], "in the default experiment")
    return runs


def _points(n: int) -> list[Metric]:
    return [
        *(Metric("loss", 1 / (k + n + 1), NOON + k, k) for k in range(5)),
        Metric("none", math.nan, NOON, 0),
        Metric("none", 1.5, NOON, 0),
        Metric("inf", math.inf, NOON, -3),
        Metric("inf", -math.inf, NOON, 3),
        Metric(ODD, 5e-324, NOON, 2**40),
        Metric("same step", -0.0, NOON, 1),
        Metric("same step", 2.0, NOON, 1),
        Metric("same step", 2.0, NOON + 1, 1),
    ]


def _deleted_experiment(theirs: Theirs, gone: str) -> None:
    run = theirs.tracking.create_run(gone, "ada", NOON, [], "gone with it")
    theirs.tracking.log_batch(run.info.run_id, [Metric("m", 1.0, NOON, 0)], [], [])
    theirs.tracking.delete_experiment(gone)


def _logged_models(theirs: Theirs, experiment_id: str, runs: list[str]) -> str:
    store = theirs.tracking
    model = store.create_logged_model(
        experiment_id,
        "tree",
        runs[0],
        [LoggedModelTag("short", "s"), LoggedModelTag("long", LONG)],
        [LoggedModelParameter("depth", "3"), LoggedModelParameter("text", LONG)],
        "agent",
    )
    store.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    measured = [
        Metric("auc", 0.5 + n / 10, NOON, n, model_id=model.model_id, run_id=runs[4])
        for n in range(3)
    ]
    store.log_batch(runs[4], measured, [], [])
    store.create_logged_model(experiment_id, "pending")
    deleted = store.create_logged_model(experiment_id, "deleted", runs[1])
    store.delete_logged_model(deleted.model_id)
    return model.model_id


def _inputs(theirs: Theirs, runs: list[str], model_id: str) -> None:
    sets = [
        Dataset("wine", "d1", "local", "{}", '{"columns": 3}', None),
        Dataset("wine", "d2", "http", LONG, LONG * 100, '{"rows": 3}'),
    ]
    inputs = [
        DatasetInput(sets[0], [InputTag("mlflow.data.context", "train"), InputTag("k", "v")]),
        DatasetInput(sets[1], []),
    ]
    theirs.tracking.log_inputs(runs[4], inputs, [LoggedModelInput(model_id)])
    theirs.tracking.log_inputs(runs[5], inputs[:1])
    theirs.tracking.update_run_info(runs[5], RunStatus.FINISHED, NOON + 7, None)
    theirs.tracking.log_outputs(runs[4], [LoggedModelOutput(model_id, 4)])


def _traces(theirs: Theirs, experiment_id: str, run_id: str) -> None:
    store = theirs.tracking
    for n in range(4):
        trace = trace_id(n)
        spans = make_spans(trace, 4, NOON + n)
        store.log_spans(experiment_id, spans)
        store.start_trace(make_info(trace, experiment_id, start=NOON + n))
        store.set_trace_tag(trace, "long", LONG)
    told = make_span(
        trace_id(9),
        0,
        failed=True,
        attributes={
            SpanAttributeKey.MODEL: "gpt",
            SpanAttributeKey.LLM_COST: {"input_cost": 0.1, "output_cost": 0.2, "total_cost": 0.3},
            SpanAttributeKey.SESSION_ID: "a session",
        },
    )
    store.log_spans(experiment_id, [told])
    store.create_assessment(_feedback(trace_id(0), "good", True))
    changed = store.create_assessment(_feedback(trace_id(0), "good", "second thoughts"))
    store.create_assessment(
        Feedback(
            name="good",
            value=None,
            error=AssessmentError("E1", "it broke"),
            source=HUMAN,
            trace_id=trace_id(0),
            overrides=changed.assessment_id,
            rationale=LONG,
            metadata={"mlflow.assessment.sourceRunId": run_id},
        )
    )
    expected = Expectation(name="answer", value={"a": [1, 2]}, source=HUMAN, trace_id=trace_id(1))
    store.create_assessment(expected)
    store.link_traces_to_run([trace_id(0), trace_id(1)], run_id)
    store.link_prompts_to_trace(trace_id(2), [make_prompt("greeting", 1)])


def _feedback(trace: str, name: str, value: object) -> Feedback:
    return Feedback(name=name, value=value, source=HUMAN, trace_id=trace)  # type: ignore[arg-type]


def _registry(theirs: Theirs, run_id: str) -> None:
    store = theirs.registry
    store.create_registered_model("iris", [RegisteredModelTag("k", LONG)], "flowers")
    for n in range(4):
        store.create_model_version(
            "iris", f"s3://m/{n}", run_id, [ModelVersionTag("n", str(n))], "link", f"the {n}th"
        )
    store.set_model_version_tag("iris", "2", ModelVersionTag("long", LONG))
    store.transition_model_version_stage("iris", "2", "Production", False)
    store.transition_model_version_stage("iris", "1", "Staging", False)
    store.set_registered_model_alias("iris", "champion", "2")
    store.set_registered_model_alias("iris", "challenger", "1")
    store.delete_model_version("iris", "4")
    store.create_registered_model("empty ü")
    store.create_registered_model("greeting", [RegisteredModelTag(IS_PROMPT_TAG_KEY, "true")])
    store.create_model_version(
        "greeting", "prompt", tags=[ModelVersionTag(IS_PROMPT_TAG_KEY, "true")]
    )
    store.create_registered_model("large")
    for n in range(LARGE):
        store.create_model_version("large", f"s3://l/{n}", run_id, [ModelVersionTag("t", LONG)])


def _webhooks(theirs: Theirs) -> None:
    events = [
        WebhookEvent(WebhookEntity.MODEL_VERSION, WebhookAction.CREATED),
        WebhookEvent(WebhookEntity.REGISTERED_MODEL, WebhookAction.CREATED),
    ]
    store = theirs.registry
    store.create_webhook("hook", URL, events, "told of models", secret="quiet")
    disabled = store.create_webhook("disabled", URL, events[:1])
    store.update_webhook(disabled.webhook_id, status=WebhookStatus.DISABLED)
    gone = store.create_webhook("gone", URL, events[:1])
    store.delete_webhook(gone.webhook_id)


def _evaluation(theirs: Theirs, experiment_id: str, run_id: str) -> None:
    store = theirs.tracking
    store.create_issue(experiment_id, "slow", LONG, root_causes=["a", "b"], source_run_id=run_id)
    store.create_issue("0", "wrong", "short", severity=IssueSeverity.HIGH, created_by="ada")
    for version in range(3):
        store.register_scorer(experiment_id, "fluency", json.dumps({"v": version, "text": LONG}))
    store.register_scorer("0", "other", json.dumps({"v": 1}))
    store.delete_scorer(experiment_id, "fluency", 2)
    used = store.create_dataset("used", {"team": "blue", "long": LONG}, [experiment_id, "0"])
    store.create_dataset("unused")
    records = [
        {
            "inputs": {"question": f"What is {n}?"},
            "outputs": {"answer": n},
            "expectations": {"right": True},
            "tags": {"mlflow.user": "ada"},
            "source": {"source_type": "TRACE", "source_data": {"trace_id": trace_id(n)}},
        }
        for n in range(5)
    ]
    store.upsert_dataset_records(used.dataset_id, [*records, {"inputs": {"long": LONG * 50}}])
