"""Background jobs of a whole server: a judge and an evaluation started in the UI, online scoring.

The model provider is a stand-in on this machine, which the server's AI gateway calls.
"""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.entities import GatewayEndpointModelConfig
from mlflow.entities.gateway_endpoint import GatewayModelLinkageType
from mlflow.genai import make_judge
from mlflow.genai.scorers import ScorerSamplingConfig

from mlflow_dynamodbstore.mlflow_compat.gateway_routes import get_current_store
from tests.browser.conftest import Browsed
from tests.browser.provider import Provider, running_provider
from tests.e2e.processes import Server, running_server
from tests.stores import uri_on

pytest.importorskip("playwright.sync_api", reason="run by make e2e")

JOBS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "true",
    "MLFLOW_CRYPTO_KEK_PASSPHRASE": "a passphrase for these tests",
    "MLFLOW_GATEWAY_API_BASE_ALLOWED_SCHEMES": "http,https",
    "MLFLOW_GATEWAY_API_BASE_ALLOW_PRIVATE_IPS": "true",
    "MLFLOW_ONLINE_SCORING_DEFAULT_TRACE_COMPLETION_BUFFER_SECONDS": "5",
    "MLFLOW_ONLINE_SCORING_MAX_WORKER_THREADS": "1",
    "MLFLOW_SERVER_JOB_LEASE_TTL": "20",
}
PATIENCE = 300.0
"""Seconds; a server with jobs starts nine processes."""
pytestmark = pytest.mark.timeout(4 * PATIENCE)


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with running_provider() as started:
        yield started


@pytest.fixture(scope="module", params=["dynamodb", "sqlite"])
def job_server(request, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that runs jobs, on our store and on MLflow's own."""
    folder = tmp_path_factory.mktemp("jobs")
    table = f"sqlite:///{folder}/mlflow.db" if request.param == "sqlite" else None
    with running_server(folder / "data", 1, table, **JOBS) as started:
        yield started


@pytest.fixture(scope="module")
def experiment_id(job_server: Server, provider: Provider) -> str:
    """An experiment with three traces and a judge."""
    return prepare(job_server.url, provider)


def prepare(url: str, provider: Provider) -> str:
    mlflow.set_tracking_uri(url)
    store = get_current_store(url)
    secret = store.create_gateway_secret(
        "openai", {"api_key": "sk-1"}, "openai", {"api_base": provider.url}
    )
    model = store.create_gateway_model_definition("gpt", secret.secret_id, "openai", "gpt-4o")
    config = GatewayEndpointModelConfig(model.model_definition_id, GatewayModelLinkageType.PRIMARY)
    store.create_gateway_endpoint("chat", [config], usage_tracking=False)
    experiment_id = str(mlflow.set_experiment("talks").experiment_id)
    talk(3)
    judge().register(experiment_id=experiment_id)
    return experiment_id


def judge() -> Any:
    return make_judge(
        name="polite",
        instructions="Is {{ outputs }} polite? Answer yes or no.",
        model="gateway:/chat",
        feedback_value_type=str,
    )


def talk(times: int) -> list[str]:
    """The ids of new traces."""
    traces = []
    for n in range(times):
        with mlflow.start_span("answer") as span:
            span.set_inputs({"question": f"question {n}"})
            span.set_outputs({"answer": "hello"})
        traces.append(span.trace_id)
    mlflow.flush_trace_async_logging()
    return traces


def jobs_of(url: str, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = post(url, "/ajax-api/3.0/jobs/search", {"job_name": name})["jobs"]
    return found


def post(url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(f"{url}{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        said: dict[str, Any] = json.load(answer)
    return said


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if holds():
            return
        time.sleep(1)
    raise AssertionError(f"{what} did not happen in {PATIENCE} seconds")


def scores(trace_id: str) -> list[Any]:
    """The values of the judge's assessments of a trace."""
    trace = mlflow.get_trace(trace_id)
    assert trace is not None
    return [one.value for one in trace.info.assessments if one.name == "polite"]


@pytest.fixture
def seen(halves: Callable[[str], Any], job_server: Server) -> Iterator[Browsed]:
    browsed = Browsed(halves("genai").new_page(), job_server.url)
    browsed.page.set_default_timeout(PATIENCE * 1000)
    yield browsed
    assert not browsed.complaints()
    browsed.page.close()
    assert not browsed.troubles


def choose_judge(page: Any) -> None:
    page.get_by_role("dialog").get_by_text("polite").wait_for()
    page.get_by_role("dialog").get_by_role("checkbox").first.click()
    page.get_by_role("button", name="Run judge").click()


@pytest.fixture
def held(provider: Provider) -> Iterator[Provider]:
    """The model provider, which answers when it is let."""
    provider.answering.clear()
    yield provider
    provider.answering.set()


def test_a_judge_is_run_on_traces_from_the_ui(seen, experiment_id, job_server, held):
    """The page follows the job and says that it has ended; the assessments are in the traces."""
    page = seen.open(f"/experiments/{experiment_id}/traces")
    seen.sees("question 2")
    page.get_by_role("checkbox").first.click()
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("menuitem", name="Run scorers").click()
    choose_judge(page)
    seen.sees('Running judge "polite"…')
    held.answering.set()
    seen.sees('Judge "polite" completed successfully.')
    seen.keep("judge")
    (job,) = jobs_of(job_server.url, "invoke_scorer")
    assert job["status"] == "SUCCEEDED"
    assert {len(scores(trace_id)) for trace_id in job["result"]} == {1}
    assert len(job["result"]) == 3


def test_an_evaluation_is_started_from_the_ui(seen, experiment_id, job_server, held):
    """The page shows the run while the job runs; it ends with the job."""
    page = seen.open(f"/experiments/{experiment_id}/evaluation-runs")
    page.get_by_role("button", name="Evaluate traces").click()
    choose_judge(page)
    page.get_by_text("Run Name").wait_for()
    running = "attributes.status = 'RUNNING'"
    (run,) = mlflow.search_runs([experiment_id], running, output_format="list")
    seen.sees(str(run.info.run_name))
    held.answering.set()
    wait_until(
        lambda: any(
            job["status"] == "SUCCEEDED" for job in jobs_of(job_server.url, "invoke_genai_evaluate")
        ),
        "the evaluation",
    )
    (job,) = jobs_of(job_server.url, "invoke_genai_evaluate")
    assert job["result"]["total_traces"] == 3
    run = mlflow.get_run(job["result"]["run_id"])
    assert run.info.status == "FINISHED"
    page.reload()
    seen.sees(str(run.info.run_name))
    seen.keep("evaluation")


def test_the_page_of_a_run_shows_how_far_issue_detection_has_come(
    seen, experiment_id, job_server, provider, request
):
    """The job waits for the model at a stage that the page shows only if the job reports it."""
    request.addfinalizer(provider.answering.set)
    request.addfinalizer(lambda: setattr(provider, "result", "yes"))
    provider.answering.clear()
    provider.result = {"passed": "true", "categories": ""}
    found = mlflow.search_traces(locations=[experiment_id], return_type="list")
    body = {
        "experiment_id": experiment_id,
        "trace_ids": [trace.info.trace_id for trace in found],
        "categories": ["correctness"],
        "provider": "openai",
        "endpoint_name": "chat",
    }
    started = post(job_server.url, "/ajax-api/3.0/mlflow/issues/invoke", body)
    page = seen.open(f"/experiments/{experiment_id}/evaluation-runs/{started['run_id']}")
    seen.sees("Verifying configuration...")
    seen.keep("issue-detection")
    provider.answering.set()
    seen.sees("Issue detection completed")
    assert "Scanned 3 traces, 0 issues found" in page.inner_text("body")
    (job,) = jobs_of(job_server.url, "invoke_issue_detection")
    assert (job["job_id"], job["status"]) == (started["job_id"], "SUCCEEDED")
    assert job["result"]["total_traces_analyzed"] == 3
    assert mlflow.get_run(started["run_id"]).info.status == "FINISHED"


# --- two servers --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["embedded", "dynoxide"])
def test_online_scoring_scores_each_trace_once_though_runners_are_killed(
    tmp_path: Path, provider: Provider, kind: str
):
    """Two servers on one table. Both runners are killed while traces are being scored."""
    with ExitStack() as stack:
        table = stack.enter_context(uri_on(kind, tmp_path))
        servers = [
            stack.enter_context(running_server(tmp_path / name, 1, table, **JOBS))
            for name in ("one", "other")
        ]
        experiment_id = prepare(servers[0].url, provider)
        sampling = ScorerSamplingConfig(sample_rate=1.0)
        mlflow.genai.get_scorer(name="polite", experiment_id=experiment_id).start(
            experiment_id=experiment_id, sampling_config=sampling
        )
        stack.callback(setattr, provider, "seconds", 0.0)
        provider.seconds = 3.0
        traces = talk(12)
        wait_until(lambda: sum(len(scores(one)) for one in traces) >= 2, "a score")
        assert sum(len(scores(one)) for one in traces) < 12
        assert kill_runners(table) == 2
        provider.seconds = 0.0
        traces += talk(3)
        wait_until(lambda: all(scores(one) for one in traces), "scoring of all traces")
        wait_until(lambda: no_job_runs(servers[0].url), "the end of all jobs")
        assert [len(scores(one)) for one in traces] == [1] * len(traces)


def no_job_runs(url: str) -> bool:
    found = jobs_of(url, "run_online_trace_scorer")
    return not any(job["status"] in ("PENDING", "RUNNING") for job in found)


def kill_runners(table: str) -> int:
    """Kill the job runners of all servers on a table, as the kernel would; returns how many."""
    killed = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        if b"mlflow.server.jobs._job_runner" in command and table.encode() in environment:
            os.kill(int(process.name), signal.SIGKILL)
            killed += 1
    return killed
