"""Jobs of whole servers with workspaces, on each of MLflow's engines, and the archival of traces.

A server with jobs has up to nine processes, so there is one for each engine and kind of table. One
of them is `mlflow server` without options of ours.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.mlflow_compat.gateway_routes import get_current_store
from tests.e2e.processes import PROGRAMS, Server, running_mlflow_server, running_server
from tests.releases import has, needs
from tests.stores import uri_on
from tests.traces.making import client_metadata, make_info, make_spans

PATIENCE = 240.0
pytestmark = pytest.mark.timeout(4 * PATIENCE)  # servers with jobs start nine processes each
RUNNERS = {"huey": "mlflow.server.jobs._job_runner", "executor": "_executor_runner"}
JOBS = ("count", "settle", "stumble")
HOUR = 3_600_000


@dataclass(frozen=True)
class JobServer:
    """A server that runs jobs."""

    server: Server
    table: str
    engine: str
    archive: Path
    settings: dict[str, str]

    def ask(self, method: str, path: str, body: Any = None, workspace: str = "default") -> Any:
        """What the server answers to a request in a workspace."""
        headers = {"Content-Type": "application/json", "X-MLFLOW-WORKSPACE": workspace}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.server.url}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def submit(
        self, name: str, workspace: str = "default", timeout: float | None = None, **params: Any
    ) -> str:
        body = {"job_name": name, "params": params, "timeout": timeout}
        return str(self.ask("POST", "/ajax-api/3.0/jobs/", body, workspace)["job_id"])

    def job(self, job_id: str, workspace: str = "default") -> Any:
        return self.ask("GET", f"/ajax-api/3.0/jobs/{job_id}", workspace=workspace)

    def wait_for(self, job_id: str, holds: Callable[[Any], Any], workspace: str = "default") -> Any:
        """The job, as soon as something holds for it."""

        def found() -> Any:
            job = self.job(job_id, workspace)
            return job if holds(job) else None

        return wait_until(found, self.server)


def wait_until(found: Callable[[], Any], server: Server) -> Any:
    """What is found, as soon as there is something."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if answer := found():
            return answer
        time.sleep(0.2)
    raise AssertionError(f"nothing was found in {PATIENCE} seconds\n{server.log[-5000:]}")


@pytest.fixture(
    scope="module",
    params=[("huey", "embedded"), ("executor", "embedded"), ("huey", "dynoxide")],
    ids=" on ".join,
)
def jobs(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobServer]:
    engine, kind = request.param
    if engine == "executor" and not has("a second engine"):
        pytest.skip("this release has one engine")
    folder = tmp_path_factory.mktemp(f"{engine}-{kind}")
    archive, config = folder / "archive", folder / "archival.yaml"
    config.write_text(
        "trace_archival:\n  enabled: true\n  retention: 1h\n  interval_seconds: 1\n"
        f"  location: {archive.as_uri()}\n"
    )
    settings = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "true",
        "MLFLOW_SERVER_JOB_LEASE_TTL": "6",
        "MLFLOW_SERVER_JOB_TRANSIENT_ERROR_RETRY_BASE_DELAY": "1",
        "MLFLOW_ENABLE_WORKSPACES": "true",
        "MLFLOW_TRACE_ARCHIVAL_CONFIG": str(config),
        "PYTHONPATH": os.pathsep.join(
            [*os.environ.get("PYTHONPATH", "").split(":"), str(PROGRAMS)]
        ),
        "_MLFLOW_SUPPORTED_JOB_FUNCTION_LIST": ",".join(f"job_functions.{job}" for job in JOBS),
        "_MLFLOW_ALLOWED_JOB_NAME_LIST": ",".join(JOBS),
    }
    if engine == "executor":
        settings["MLFLOW_SERVER_JOB_EXECUTION_ENGINE"] = "executor"
    with ExitStack() as stack:
        table = stack.enter_context(uri_on(kind, folder))
        running = running_mlflow_server if kind == "dynoxide" else running_server
        server = stack.enter_context(running(folder / "data", 1, table, **settings))
        yield JobServer(server, table, engine, archive, settings)


def started(folder: Path, times: int = 1) -> list[int]:
    """The processes in which a job was started; none unless there are as many."""
    starts = folder / "starts"
    pids = [int(pid) for pid in starts.read_text().split()] if starts.exists() else []
    return pids if len(pids) >= times else []


@needs("a second engine")  # the release that has the one has the other
def test_the_progress_of_a_job_is_seen_in_per_cent_while_it_runs(jobs, tmp_path):
    job_id = jobs.submit("count", folder=str(tmp_path), steps=4)
    seen = []
    for step in range(1, 5):
        (tmp_path / f"step {step}").touch()
        job = jobs.wait_for(
            job_id, lambda job, n=step: (job["progress"] or {}).get("completed") == n
        )
        progress = job["progress"]
        seen.append((job["status"], 100 * progress["completed"] // progress["total"]))
        assert job["status_message"] == f"step {step}"
    assert seen == [("RUNNING", 25), ("RUNNING", 50), ("RUNNING", 75), ("RUNNING", 100)]
    (tmp_path / "end").touch()
    job = jobs.wait_for(job_id, lambda job: job["status"] == "SUCCEEDED")
    assert (job["result"], job["progress"]) == ({"steps": 4}, None)  # as on a SQL database


def test_a_job_runs_in_its_workspace_and_is_seen_only_there(jobs):
    names = ("first-team", "second-team")
    for name in names:
        jobs.ask("POST", "/api/3.0/mlflow/workspaces", {"name": name})
    submitted = {name: jobs.submit("settle", name, experiment=f"of {name}") for name in names}
    for name, job_id in submitted.items():
        job = jobs.wait_for(job_id, lambda job: job["status"] == "SUCCEEDED", name)
        assert job["result"]["workspace"] == name
        found = jobs.ask("POST", "/ajax-api/3.0/jobs/search", {"job_name": "settle"}, name)
        assert [one["job_id"] for one in found["jobs"]] == [job_id]
        path = f"/api/2.0/mlflow/experiments/get?experiment_id={job['result']['experiment_id']}"
        experiment = jobs.ask("GET", path, workspace=name)["experiment"]
        assert experiment["name"] == f"of {name}"
    first, second = names
    with pytest.raises(urllib.error.HTTPError, match="404"):
        jobs.job(submitted[first], second)


def test_a_job_that_is_canceled_ends_its_process(jobs, tmp_path):
    job_id = jobs.submit("count", folder=str(tmp_path), steps=1)
    (pid,) = wait_until(lambda: started(tmp_path), jobs.server)
    assert jobs.ask("PATCH", f"/ajax-api/3.0/jobs/cancel/{job_id}")["status"] == "CANCELED"
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), jobs.server)
    assert jobs.job(job_id)["status"] == "CANCELED"


def test_a_job_with_a_transient_error_is_tried_again(jobs, tmp_path):
    job_id = jobs.submit("stumble", folder=str(tmp_path), times=2)
    job = jobs.wait_for(job_id, lambda job: job["status"] not in ("PENDING", "RUNNING"))
    assert (job["status"], job["result"], job["retry_count"]) == ("SUCCEEDED", {"starts": 3}, 2)
    assert len(started(tmp_path)) == 3


def test_a_job_that_takes_too_long_ends_with_its_process(jobs, tmp_path):
    job_id = jobs.submit("count", timeout=3, folder=str(tmp_path), steps=1)
    wait_until(lambda: list(processes(job_id)), jobs.server)
    job = jobs.wait_for(job_id, lambda job: job["status"] not in ("PENDING", "RUNNING"))
    assert job["status"] == "TIMEOUT"
    wait_until(lambda: not list(processes(job_id)), jobs.server)


def test_a_job_is_run_again_after_its_runner_was_killed(jobs, tmp_path):
    job_id = jobs.submit("count", folder=str(tmp_path), steps=1)
    wait_until(lambda: started(tmp_path), jobs.server)
    assert kill(str(jobs.server.data), RUNNERS[jobs.engine]) == 1
    first, second = wait_until(lambda: started(tmp_path, 2), jobs.server)
    assert not Path(f"/proc/{first}").exists()
    finish(tmp_path)
    job = jobs.wait_for(job_id, lambda job: job["status"] == "SUCCEEDED")
    assert job["result"] == {"steps": 1}
    assert started(tmp_path) == [first, second]


def test_another_server_finishes_the_jobs_of_one_that_was_killed(jobs, tmp_path):
    """Those that ran are started again, those that waited once."""
    with running_server(tmp_path / "other", 1, jobs.table, **jobs.settings) as server:
        other = JobServer(server, jobs.table, jobs.engine, jobs.archive, jobs.settings)
        submitted = {}
        for n in range(30):  # until one runs there: before its runner does, jobs are taken over
            folder = tmp_path / f"job {n}"
            folder.mkdir()
            # Each runner looks for jobs once a second. At the same moment of a second, the same
            # one is always first.
            time.sleep(n % 10 / 10)
            submitted[folder] = other.submit("count", folder=str(folder), steps=1)
            (pid,) = wait_until(functools.partial(started, folder), server)
            if pid in processes(f"{server.data}/"):
                break
            finish(folder)
        else:
            raise AssertionError(f"the other server runs no jobs\n{server.log[-5000:]}")
        for n in range(3):
            folder = tmp_path / f"later {n}"
            folder.mkdir()
            submitted[folder] = other.submit("count", folder=str(folder), steps=1)
        lost = wait_until(lambda: two_that_run(list(submitted), server), server)
        assert kill(str(server.data)) > 3
    for folder in submitted:
        finish(folder)
    for job_id in submitted.values():
        job = jobs.wait_for(job_id, lambda job: job["status"] == "SUCCEEDED")
        assert job["result"] == {"steps": 1}
    assert {folder: len(started(folder)) for folder in submitted} == {
        folder: 2 if folder in lost else 1 for folder in submitted
    }


def two_that_run(folders: list[Path], server: Server) -> set[Path]:
    """The folders of the two jobs that run on a server; none unless there are two."""
    there = set(processes(f"{server.data}/"))
    running = {folder for folder in folders if there & set(started(folder))}
    return running if len(running) == 2 else set()


def finish(folder: Path) -> None:
    """Let the job in a folder end."""
    for name in ("step 1", "end"):
        (folder / name).touch()


def kill(folder: str, runner: str = "") -> int:
    """Kill all processes of the server with a data folder, or only its runner, as the kernel would.

    Returns how many there were.
    """
    found = list(processes(f"{folder}/", runner))
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    return len(found)


def processes(text: str, command: str = "") -> Iterator[int]:
    """Processes with a text in their command or environment, and another in their command."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            run = (process / "cmdline").read_bytes()
            environment = (process / "environ").read_bytes()
        except OSError:
            continue
        if command.encode() in run and text.encode() in run + environment:
            yield int(process.name)


def test_old_traces_move_to_their_archive_without_anybody_asking(jobs):
    """And are read back from there, as the client asks for them."""
    mlflow.set_tracking_uri(jobs.server.url)
    client, store = mlflow.MlflowClient(), get_current_store(jobs.server.url)
    experiment_id = str(client.create_experiment("talks"))
    now = get_current_time_millis()
    old, young = (log_trace(store, experiment_id, now - age) for age in (2 * HOUR, 0))
    before = spans_of(client, old)
    assert len(before) == 10

    def archived() -> list[str]:
        in_archive = "tags.`mlflow.trace.spansLocation` = 'ARCHIVE_REPO'"
        found = client.search_traces(
            locations=[experiment_id], filter_string=in_archive, include_spans=False
        )
        return [trace.info.trace_id for trace in found]

    assert wait_until(archived, jobs.server) == [old]
    assert any(path.is_file() for path in jobs.archive.rglob("*"))
    assert spans_of(client, old) == before
    assert len(spans_of(client, young)) == 10


def log_trace(store: Any, experiment_id: str, start: int) -> str:
    """Send a trace as the client does; its id is that of its spans."""
    spans = make_spans(f"of {start}", start=start)
    trace = f"tr-{spans[0]._span.context.trace_id:032x}"
    store.log_spans(experiment_id, spans)
    info = make_info(trace, experiment_id, start=start, metadata=client_metadata())
    store.start_trace(info)
    return trace


def spans_of(client: Any, trace: str) -> list[Any]:
    return [span.to_dict() for span in client.get_trace(trace).data.spans]
