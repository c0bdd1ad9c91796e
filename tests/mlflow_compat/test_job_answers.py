"""The routes of jobs answer on our store as they do on SQLite, status and text."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow
import pytest
from mlflow.genai import make_judge
from mlflow.genai.optimize.optimizers import MetaPromptOptimizer
from mlflow.genai.scorers import builtin_scorers
from mlflow.server import handlers
from mlflow.server.jobs import utils
from starlette.testclient import TestClient

from tests.releases import has
from tests.traces.making import client_metadata, make_info, make_spans, trace_id

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Starlette's own
    from mlflow.server.fastapi_app import create_fastapi_app

TIMES = ("creation_time", "last_update_time", "creation_timestamp_ms", "completion_timestamp_ms")
UNKNOWN = "0" * 32


class Conversation:
    """Requests to a server in this process, and what it answered."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        self.answers: list[tuple[str, int, str]] = []
        self._names: dict[str, str] = {}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer; it is kept with names in place of ids, and without times."""
        answer = self.client.request(method, f"/ajax-api/3.0{path}", json=body)
        found = answer.json()
        self._name_ids(found)
        text = json.dumps(found, sort_keys=True)
        for made, name in self._names.items():
            path, text = path.replace(made, name), text.replace(made, name)
        self.answers.append((f"{method} {path}", answer.status_code, text))
        return found

    def _name_ids(self, value: Any) -> None:
        if isinstance(value, list):
            for one in value:
                self._name_ids(one)
        elif isinstance(value, dict):
            for key, one in value.items():
                if key in ("job_id", "run_id", "dataset_id"):
                    self._names.setdefault(one, f"{key} {len(self._names)}")
                elif key in TIMES:
                    assert isinstance(one, int)
                    value[key] = "a time"
                else:
                    self._name_ids(one)


Ask = Callable[[Conversation], None]


@pytest.fixture
def conversation(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Talks with a server on a store, which has three traces; its jobs wait for a runner."""
    before = mlflow.get_tracking_uri()

    def talk(uri: str, folder: Path, ask: Ask) -> list[tuple[str, int, str]]:
        folder.mkdir()
        monkeypatch.setenv("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "true")
        monkeypatch.setenv("_MLFLOW_SERVER_FILE_STORE", uri)
        monkeypatch.setenv("_MLFLOW_SERVER_ARTIFACT_ROOT", str(folder / "artifacts"))
        monkeypatch.setenv("_MLFLOW_HUEY_STORAGE_PATH", str(folder))
        for name in ("_job_store", "_tracking_store", "_model_registry_store"):
            monkeypatch.setattr(handlers, name, None)
        monkeypatch.setattr(utils, "_huey_instance_map", {})
        mlflow.set_tracking_uri(uri)
        store = handlers._get_tracking_store()
        for n in range(3):
            store.log_spans("0", make_spans(trace_id(n)))
            store.start_trace(make_info(trace_id(n), "0", metadata=client_metadata()))
        with TestClient(create_fastapi_app(), base_url="http://localhost") as client:
            spoken = Conversation(client)
            ask(spoken)
        return spoken.answers

    yield talk
    mlflow.set_tracking_uri(before)


def ask_about_jobs(spoken: Conversation) -> None:
    """Each route of jobs: what it accepts and what it refuses."""
    judge = make_judge(
        name="polite",
        instructions="Is {{ outputs }} polite?",
        model="openai:/gpt-4o",
        feedback_value_type=str,
    )
    scorer = json.dumps(judge.model_dump())
    of_traces = {"experiment_id": "0", "trace_ids": [trace_id(0), trace_id(1)]}
    scored = {**of_traces, "serialized_scorer": scorer}
    evaluated = {**of_traces, "serialized_scorers": [scorer]}
    searched = {**of_traces, "categories": ["correctness"], "provider": "openai"}
    spoken.ask("POST", "/jobs/search", {})
    (job,) = spoken.ask("POST", "/mlflow/scorer/invoke", scored)["jobs"]
    for path, body in (
        ("scorer/invoke", {**scored, "trace_ids": []}),
        ("scorer/invoke", {**scored, "trace_ids": ["tr-unknown"]}),
        ("scorer/invoke", {**scored, "experiment_id": None}),
        ("genai/evaluate/invoke", evaluated),
        ("genai/evaluate/invoke", {**evaluated, "serialized_scorers": []}),
        ("issues/invoke", {**searched, "endpoint_name": "chat"}),
        ("issues/invoke", searched),
    ):
        spoken.ask("POST", f"/mlflow/{path}", body)
    for name, params in (("unknown", {}), ("invoke_scorer", {"wrong": 1}), ("invoke_scorer", None)):
        spoken.ask("POST", "/jobs/", {"job_name": name, "params": params})
    for job_id in (job["job_id"], UNKNOWN):
        spoken.ask("GET", f"/jobs/{job_id}")
        spoken.ask("GET", f"/mlflow/jobs/{job_id}")
        spoken.ask("PATCH", f"/jobs/cancel/{job_id}")
        if has("jobs that are recovered"):  # before, SQL cancels a job again that has ended
            spoken.ask("PATCH", f"/jobs/cancel/{job_id}")
            spoken.ask("PATCH", f"/mlflow/jobs/cancel/{job_id}")
    searches: tuple[dict[str, Any], ...] = (
        {},
        {"job_name": "invoke_scorer"},
        {"statuses": ["PENDING"]},
        {"params": {"experiment_id": "0"}},
        {"params": {"experiment_id": "1"}},
        {"statuses": ["no such status"]},
    )
    for body in searches:
        spoken.ask("POST", "/jobs/search", body)


@pytest.fixture
def same_answers(conversation: Any, tmp_path: Path) -> Callable[[Ask], list[tuple[str, int, str]]]:
    """Talks with a server on our store and with one on SQLite; both must answer the same."""

    def compare(ask: Ask) -> list[tuple[str, int, str]]:
        uri = f"dynamodb:///{tmp_path}/mlflow.ddb?synchronous=NORMAL"
        ours = conversation(uri, tmp_path / "ours", ask)
        theirs = conversation(f"sqlite:///{tmp_path}/mlflow.db", tmp_path / "theirs", ask)
        for answer, expected in zip(ours, theirs, strict=True):
            assert answer == expected
        return list(ours)

    return compare


def test_every_route_of_jobs_answers_as_on_sqlite(same_answers):
    answers = same_answers(ask_about_jobs)
    assert [status for _, status, _ in answers].count(200) >= 10


# --- prompt optimisation ------------------------------------------------------------------------


def optimise_a_prompt(spoken: Conversation) -> None:
    """A prompt with a dataset, and each route of the job that makes it better."""
    model = {"provider": "openai", "model_name": "gpt-4o"}
    prompt = mlflow.genai.register_prompt("polite", "Answer {{question}}", model_config=model)
    dataset = mlflow.genai.create_dataset("questions", experiment_id="0")
    records = [{"inputs": {"question": str(n)}, "expectations": {"n": n}} for n in range(2)]
    dataset.merge_records(records)
    asked = {
        "experiment_id": "0",
        "source_prompt_uri": prompt.uri,
        "config": {
            "optimizer_type": "OPTIMIZER_TYPE_METAPROMPT",
            "dataset_id": dataset.dataset_id,
            "scorers": ["Politeness"],
            "optimizer_config_json": '{"reflection_model": "openai:/gpt-4o"}',
        },
        "tags": [{"key": "team", "value": "blue"}],
    }
    jobs = "/mlflow/prompt-optimization/jobs"
    spoken.ask("POST", jobs, {**asked, "experiment_id": ""})
    spoken.ask("POST", jobs, {**asked, "config": {"optimizer_type": 0}})
    made, canceled = (spoken.ask("POST", jobs, asked)["job"] for _ in range(2))
    spoken.ask("GET", f"{jobs}/{made['job_id']}")
    run_job(made["job_id"])
    spoken.ask("GET", f"{jobs}/{made['job_id']}")
    spoken.ask("POST", f"{jobs}/{canceled['job_id']}/cancel", {})
    spoken.ask("POST", f"{jobs}/search", {"experiment_id": "0"})
    assert mlflow.get_run(canceled["run_id"]).info.status == "KILLED"
    spoken.ask("DELETE", f"{jobs}/{canceled['job_id']}")
    spoken.ask("GET", f"{jobs}/{canceled['job_id']}")
    better = mlflow.genai.load_prompt("prompts:/polite/2")
    assert better.template == "Answer {{question}}, please"
    assert len(mlflow.search_traces(locations=["0"], return_type="list")) > 3  # of the evaluation
    run = mlflow.get_run(made["run_id"])
    assert run.info.status == "FINISHED"
    assert run.data.metrics["final_eval_score"] > run.data.metrics["initial_eval_score"]


def run_job(job_id: str) -> None:
    """Run a job in this process, as its queue would in another."""
    job = handlers._get_job_store().get_job(job_id)
    utils._exec_job(job_id, None, job.job_name, json.loads(job.params), job.timeout, False)
    assert handlers._get_job_store().get_job(job_id).status == "SUCCEEDED"


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the process of a job, and for the models that it would ask."""

    def run_here(function: str, params: dict[str, Any], *_rest: Any) -> Any:
        result = json.dumps(utils._load_function(function)(**params))
        return SimpleNamespace(succeeded=True, result=result, is_transient_error=False, error=None)

    def completion(messages: list[dict[str, str]], **_rest: Any) -> Any:
        message = SimpleNamespace(content=messages[0]["content"])
        return SimpleNamespace(choices=[SimpleNamespace(message=message)])

    @mlflow.genai.scorer(name="politeness")
    def politeness(outputs: str) -> float:
        return float("please" in outputs)

    monkeypatch.setattr(utils, "_exec_job_in_subproc", run_here)
    monkeypatch.setitem(sys.modules, "litellm", SimpleNamespace(completion=completion))
    monkeypatch.setattr(builtin_scorers, "Politeness", lambda: politeness, raising=False)
    monkeypatch.setattr(
        MetaPromptOptimizer,
        "_call_reflection_model",
        lambda *_args: {"polite": "Answer {{question}}, please"},
    )


@pytest.mark.usefixtures("stand_ins")
def test_a_prompt_is_optimised_as_on_sqlite(same_answers):
    """The job reads a prompt and a dataset, and writes traces, scores and a version."""
    answers = same_answers(optimise_a_prompt)
    assert [status for _, status, _ in answers] == [400, 400, *[200] * 7, 404]
