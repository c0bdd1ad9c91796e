"""The routes of jobs answer on our store as they do on SQLite, status and text."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.genai import make_judge
from mlflow.server import handlers
from mlflow.server.jobs import utils
from starlette.testclient import TestClient

from tests.releases import has
from tests.traces.making import client_metadata, make_info, make_spans, trace_id

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Starlette's own
    from mlflow.server.fastapi_app import create_fastapi_app

TIMES = ("creation_time", "last_update_time")
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
                if key in ("job_id", "run_id"):
                    self._names.setdefault(one, f"{key} {len(self._names)}")
                elif key in TIMES:
                    assert isinstance(one, int)
                    value[key] = "a time"
                else:
                    self._name_ids(one)


@pytest.fixture
def conversation(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Talks with a server on a store, which has three traces; its jobs wait for a runner."""
    before = mlflow.get_tracking_uri()

    def talk(uri: str, folder: Path) -> list[tuple[str, int, str]]:
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
            ask_about_jobs(spoken)
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


def test_every_route_of_jobs_answers_as_on_sqlite(conversation, tmp_path):
    ours = conversation(f"dynamodb:///{tmp_path}/mlflow.ddb?synchronous=NORMAL", tmp_path / "ours")
    theirs = conversation(f"sqlite:///{tmp_path}/mlflow.db", tmp_path / "theirs")
    for answer, expected in zip(ours, theirs, strict=True):
        assert answer == expected
    assert [status for _, status, _ in ours].count(200) >= 10
