"""MLflow's functions that run jobs, as we replace them: on its queues, without its processes."""

from __future__ import annotations

import importlib
import json
import socket
import sys
import threading
import types
from types import SimpleNamespace
from typing import Any

import pytest
from mlflow.entities._job_status import JobStatus
from mlflow.exceptions import MlflowException
from mlflow.server import handlers
from mlflow.server.jobs import utils
from mlflow.tracing import trace_archival_service
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore import plugin
from mlflow_dynamodbstore.jobs.store import DynamoDBJobStore
from mlflow_dynamodbstore.mlflow_compat import job_runner
from mlflow_dynamodbstore.mlflow_compat.job_server import RENEWALS
from mlflow_dynamodbstore.mlflow_compat.post_import import after_import, replace
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from tests.engines import free_port
from tests.releases import has, needs
from tests.traces.making import client_metadata, make_info, make_spans, trace_id

NAME = "run_online_trace_scorer"
PARAMS = {"experiment_id": "7", "online_scorers": []}
KEYS = ["experiment_id"]


@pytest.fixture
def uri(tmp_path, monkeypatch):
    """A server on our store in this process, as the environment of its processes tells them."""
    uri = f"dynamodb:///{tmp_path}/mlflow.ddb?synchronous=NORMAL"
    monkeypatch.setenv("_MLFLOW_SERVER_FILE_STORE", uri)
    server(monkeypatch, tmp_path / "queues")
    return uri


def server(monkeypatch, folder):
    """Be another server on the same table: with queues of its own."""
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("_MLFLOW_HUEY_STORAGE_PATH", str(folder))
    monkeypatch.setattr(handlers, "_job_store", None)
    monkeypatch.setattr(utils, "_huey_instance_map", {})
    return job_store()


def job_store() -> Any:
    return handlers._get_job_store()


@pytest.fixture
def ran(monkeypatch):
    """The jobs that were run; a job takes no process here, and no time unless a test says so."""
    done: list[str] = []
    held = SimpleNamespace(done=done, meanwhile=lambda: None)

    def run(*args, **kwargs):
        done.append(kwargs.get("job_id") or args[7])
        held.meanwhile()
        return SimpleNamespace(succeeded=True, result="1", is_transient_error=False, error=None)

    monkeypatch.setattr(utils, "_exec_job_in_subproc", run)
    return held


def submit(store, name=NAME, params=PARAMS):
    return store.create_job(name, json.dumps(params)).job_id


def execute(job_id, exclusive=False):
    utils._exec_job(job_id, None, NAME, PARAMS, None, exclusive)


# --- the store ----------------------------------------------------------------------------------


def test_servers_on_our_uris_may_run_jobs(uri):
    utils._check_requirements(uri)
    utils._check_requirements()


def test_servers_on_other_uris_are_asked_as_before(tmp_path, monkeypatch):
    monkeypatch.delenv("_MLFLOW_SERVER_FILE_STORE", raising=False)
    utils._check_requirements(f"sqlite:///{tmp_path}/mlflow.db")
    with pytest.raises(MlflowException, match="requires a database backend store URI"):
        utils._check_requirements(str(tmp_path))


def test_a_release_that_lacks_a_name_runs_no_jobs_and_says_which(uri, monkeypatch):
    """Without the name, a job might run twice."""
    lacking = types.ModuleType(utils.__name__)
    vars(lacking).update(vars(importlib.import_module(utils.__name__)))
    del vars(lacking)["_exec_job"]
    monkeypatch.setattr(job_runner, "_missing", [])
    job_runner.replace_in_utils(lacking)
    with pytest.raises(
        MlflowException, match=r"which lacks mlflow\.server\.jobs\.utils\._exec_job"
    ):
        utils._check_requirements(uri)


def test_every_name_that_is_replaced_is_there(uri):
    """In the releases that we support, none is missing."""
    assert job_runner._missing == []


def test_the_store_is_one_a_process_and_knows_its_queue(uri):
    store = job_store()
    assert store is job_store()
    assert store.lost_jobs.queue.endswith("/queues")


def test_outside_a_server_a_store_belongs_to_no_queue(uri, monkeypatch):
    monkeypatch.delenv("_MLFLOW_HUEY_STORAGE_PATH")
    store = plugin.job_store(uri)
    job_id = submit(store)
    assert "queue" not in store.status_changes.existing_job(job_id)


# --- running ------------------------------------------------------------------------------------


def test_a_job_is_run_and_its_result_kept(uri, ran):
    store = job_store()
    job_id = submit(store)
    execute(job_id)
    job = store.get_job(job_id)
    assert (job.status, job.result) == (JobStatus.SUCCEEDED, "1")


def test_a_job_in_two_queues_is_run_once(uri, ran):
    """Whichever server comes second does nothing, and without an error."""
    job_id = submit(job_store())
    execute(job_id)
    execute(job_id)
    assert ran.done == [job_id]


def test_a_lease_is_renewed_while_its_job_runs(uri, ran, monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_SERVER_JOB_LEASE_TTL", "0.6")
    store = server(monkeypatch, tmp_path / "queues")
    store.lost_jobs.hold_queue(60)
    ended = threading.Event()
    found: list[object] = []

    def meanwhile():
        other = type(store)(uri, queue="elsewhere")
        for _ in range(8):
            ended.wait(0.2)
            found.extend(other.lost_jobs.take_over(1 << 47))

    ran.meanwhile = meanwhile
    job_id = submit(store)
    execute(job_id)
    assert found == []
    assert store.get_job(job_id).status == JobStatus.SUCCEEDED


# --- locks --------------------------------------------------------------------------------------


def test_an_exclusive_job_keeps_another_away_on_every_server(uri, ran, monkeypatch, tmp_path):
    """The second is canceled, as on a single server."""
    first_store = job_store()
    first, second = submit(first_store), submit(first_store)

    def meanwhile():
        ran.meanwhile = lambda: None
        server(monkeypatch, tmp_path / "other")
        execute(second, KEYS)

    ran.meanwhile = meanwhile
    execute(first, KEYS)
    assert ran.done == [first]
    assert first_store.get_job(second).status == JobStatus.CANCELED
    third = submit(first_store)
    execute(third, KEYS)
    assert ran.done == [first, third]


def test_a_job_that_is_run_again_after_a_crash_passes_its_own_lock(uri, ran):
    store = job_store()
    job_id = submit(store)
    lock = f"lock {utils._compute_exclusive_lock_key(NAME, {'experiment_id': '7'})}"
    assert store.leases.acquire(lock, job_id, 60)
    execute(job_id, KEYS)
    assert ran.done == [job_id]


def test_a_job_that_is_queued_twice_keeps_its_lock(uri, ran):
    """The second is dropped before it takes the lock, so it cannot give it up either."""
    store = job_store()
    first, other = submit(store), submit(store)

    def meanwhile():
        ran.meanwhile = lambda: None
        execute(first, KEYS)
        execute(other, KEYS)

    ran.meanwhile = meanwhile
    execute(first, KEYS)
    assert ran.done == [first]
    assert store.get_job(first).status == JobStatus.SUCCEEDED
    assert store.get_job(other).status == JobStatus.CANCELED


def test_periodic_tasks_run_on_one_of_two_servers(uri, monkeypatch, tmp_path):
    """Also when the first has ended before the second begins."""
    locked = importlib.import_module("huey.exceptions").TaskLockedException

    def task():
        queue = utils._get_or_init_huey_instance(utils.HUEY_PERIODIC_TASKS_INSTANCE_KEY)
        return queue.instance.lock_task("online-scoring-scheduler-lock")(lambda: "done")

    assert task()() == "done"
    server(monkeypatch, tmp_path / "other")
    with pytest.raises(locked):
        task()()


# --- recovery -----------------------------------------------------------------------------------


def test_a_runner_takes_over_what_a_lost_one_left(uri, ran, monkeypatch, tmp_path):
    monkeypatch.setattr(job_runner, "ORPHAN_SECONDS", 0)
    lost = submit(job_store())
    store = server(monkeypatch, tmp_path / "other")
    store.lost_jobs.hold_queue(60)
    utils._enqueue_unfinished_jobs(1 << 47)
    queue = utils._get_or_init_huey_instance(NAME).instance
    assert [task.args[0] for task in queue.pending()] == [lost]
    utils._enqueue_unfinished_jobs(1 << 47)
    assert len(queue.pending()) == 1


def test_a_job_of_a_function_that_is_not_known_here_waits(uri, monkeypatch, tmp_path):
    monkeypatch.setattr(job_runner, "ORPHAN_SECONDS", 0)
    job_id = submit(handlers._get_job_store(), "no such function")
    store = server(monkeypatch, tmp_path / "other")
    utils._enqueue_unfinished_jobs(1 << 47)
    assert store.get_job(job_id).status == JobStatus.PENDING


def test_the_runner_is_started_again_when_it_ends(uri, monkeypatch):
    started = []
    alive = [True, False]

    def launch(_env_map, _pid):
        started.append(1)
        return SimpleNamespace(wait=lambda: -9)

    fake = types.ModuleType("utils")
    vars(fake)["is_process_alive"] = lambda _pid: alive.pop(0)
    monkeypatch.setattr(f"{job_runner.__name__}.time.sleep", lambda _seconds: None)
    job_runner._launch_runner(fake, launch, {"_MLFLOW_SERVER_FILE_STORE": uri}, 1)
    for thread in threading.enumerate():
        if thread.name == "job-runner-restarter":
            thread.join(10)
    assert len(started) == 2


def test_the_runner_waits_until_the_server_takes_connections():
    port, started = free_port(), threading.Event()

    def launch(_env_map, _pid):
        started.set()
        return SimpleNamespace(wait=threading.Event().wait)

    fake = types.ModuleType("utils")
    vars(fake)["is_process_alive"] = lambda _pid: True
    settings = {
        "_MLFLOW_SERVER_FILE_STORE": "dynamodb:///mlflow.ddb",
        "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{port}",
    }
    job_runner._launch_runner(fake, launch, settings, 1)
    assert not started.wait(1)
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))
        server.listen()
        assert started.wait(20)


def test_the_runner_of_a_server_that_has_ended_is_not_started():
    assert not job_runner._wait_for_server(f"http://127.0.0.1:{free_port()}", lambda: False)


def test_what_a_server_without_jobs_costs_a_minute(uri, monkeypatch):
    """As docs/jobs.md says. An older release looks for jobs that a newer one has left, too."""
    engine = MeteredEngine(open_engine(uri))
    store = DynamoDBJobStore("", table=Table(engine), queue="here")
    monkeypatch.setattr(handlers, "_job_store", store)
    store.lost_jobs.hold_queue(60)
    with engine.meter.measure() as used:
        for _ in range(RENEWALS):
            store.lost_jobs.hold_queue(60)
        periodic = utils._get_or_init_huey_instance(utils.HUEY_PERIODIC_TASKS_INSTANCE_KEY)
        for task in ("online scoring", "archival"):
            periodic.instance.lock_task(task)(lambda: None)()
        job_runner._recover(utils, store, 1 << 47)
    assert used.requests == {"PutItem": 7, "Query": 4}


# --- the second engine --------------------------------------------------------------------------


@pytest.fixture(params=["ours", "SQL"])
def locks(request, uri, tmp_path, monkeypatch):
    """MLflow's own locks and ours, with the store they belong to."""
    if not has("a second engine"):
        pytest.skip("this release has one engine")
    from mlflow.server.jobs.lock_manager import JobLockManager
    from mlflow.store.jobs.sqlalchemy_store import SqlAlchemyJobStore

    if request.param == "SQL":
        uri = f"sqlite:///{tmp_path}/mlflow.db"
        monkeypatch.setenv("_MLFLOW_SERVER_FILE_STORE", uri)
        store: Any = SqlAlchemyJobStore(uri)
    else:
        store = job_store()
    return JobLockManager(store), store


def running(store, timeout=60.0):
    job_id = store.create_job("f", "{}", timeout).job_id
    store.start_job(job_id)
    return job_id


def test_a_lock_has_one_holder_until_it_is_released(locks):
    manager, store = locks
    first, second = running(store), running(store)
    lock = manager.acquire_exclusive_lock("k", first)
    assert (lock.lock_key, lock.job_id) == ("k", first)
    assert manager.acquire_exclusive_lock("k", second) is None
    assert manager.acquire_exclusive_lock("k", first).job_id == first
    lock = manager.acquire_exclusive_lock("k", first)
    manager.release_exclusive_lock(lock)
    assert manager.acquire_exclusive_lock("k", second).job_id == second


def test_the_lock_of_a_job_that_has_ended_is_void_unless_it_was_canceled(locks):
    manager, store = locks
    failed, canceled = running(store), running(store)
    manager.acquire_exclusive_lock("a", failed)
    manager.acquire_exclusive_lock("b", canceled)
    store.fail_job(failed, "broken")
    store.cancel_job(canceled)
    assert manager.acquire_exclusive_lock("a", running(store))
    assert manager.acquire_exclusive_lock("b", running(store)) is None


def test_a_lock_is_void_some_time_after_the_timeout_of_its_job(locks):
    manager, store = locks
    manager.acquire_exclusive_lock("k", running(store, timeout=0.001))
    threading.Event().wait(0.01)
    assert manager.acquire_exclusive_lock("k", running(store))


def test_a_job_without_a_timeout_takes_no_lock(locks):
    manager, store = locks
    with pytest.raises(MlflowException, match="require non-null timeout"):
        manager.acquire_exclusive_lock("k", running(store, timeout=None))


def test_one_scheduler_has_a_lease_at_a_time(locks):
    manager, _ = locks
    lease = manager.acquire_scheduler_lease("s", 60)
    assert manager.acquire_scheduler_lease("s", 60) is None
    threading.Event().wait(0.01)
    renewed = manager.renew_scheduler_lease(lease, 90)
    assert renewed.ttl_seconds == 90
    assert manager.renew_scheduler_lease(lease, 90) is None
    with pytest.raises(MlflowException, match="greater than zero"):
        manager.acquire_scheduler_lease("s", 0)


@needs("a second engine")
def test_the_second_engines_runner_leaves_the_jobs_of_live_servers_alone(
    uri, monkeypatch, tmp_path
):
    monkeypatch.setenv("MLFLOW_SERVER_JOB_EXECUTION_ENGINE", "executor")
    there = job_store()
    there.lost_jobs.hold_queue(60)
    job_id = submit(there)
    there.claim_job(job_id, 60)
    server(monkeypatch, tmp_path / "other")
    seen: list[object] = []
    utils._for_each_unfinished_job(
        there, [JobStatus.RUNNING], 1 << 47, lambda job, workspace: seen.append(job)
    )
    assert seen == []
    assert there.get_job(job_id).status == JobStatus.RUNNING


# --- modules that are awaited -------------------------------------------------------------------


def test_a_module_is_changed_when_it_is_imported(tmp_path, monkeypatch):
    (tmp_path / "awaited_module.py").write_text("def answer():\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)

    def act(module):
        replace(module, "answer", lambda theirs: theirs() + 1)

    after_import("awaited_module", act)
    assert "awaited_module" not in sys.modules
    module = importlib.import_module("awaited_module")
    assert module.answer() == 2
    assert not replace(module, "question", lambda theirs: theirs())


# --- periodic tasks -----------------------------------------------------------------------------


def run_periodic_task(name):
    """Run one of the tasks that the server does each minute, as its consumer would."""
    huey = utils._get_or_init_huey_instance(utils.HUEY_PERIODIC_TASKS_INSTANCE_KEY).instance
    utils.register_periodic_tasks(huey)
    (task,) = [task for task in huey._registry.periodic_tasks if name in str(task.name)]
    huey.execute(task)


@needs("description of the server")
def test_the_server_says_that_it_archives_only_where_jobs_run(uri, tmp_path, monkeypatch):
    config = tmp_path / "archival.yaml"
    location = (tmp_path / "archive").as_uri()
    config.write_text(
        f"trace_archival:\n  enabled: true\n  retention: 1h\n  location: {location}\n"
    )
    monkeypatch.setenv("MLFLOW_TRACE_ARCHIVAL_CONFIG", str(config))
    store = plugin.tracking_store(uri, tmp_path.as_uri())
    monkeypatch.setattr(handlers, "_get_tracking_store", lambda: store)

    def says():
        return handlers.build_server_info_payload()["trace_archival_enabled"]

    assert says() is True
    monkeypatch.setenv("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
    assert says() is False
    monkeypatch.delenv("MLFLOW_SERVER_ENABLE_JOB_EXECUTION")
    monkeypatch.setattr(job_runner, "_missing", ["a name"])
    assert says() is False


def test_old_traces_are_archived_without_anybody_asking(uri, tmp_path, monkeypatch):
    """And read back from their archive."""
    config = tmp_path / "archival.yaml"
    config.write_text(
        "trace_archival:\n  enabled: true\n  retention: 1h\n"
        f"  location: {(tmp_path / 'archive').as_uri()}\n"
    )
    monkeypatch.setenv("MLFLOW_TRACE_ARCHIVAL_CONFIG", str(config))
    monkeypatch.setenv("MLFLOW_BACKEND_STORE_URI", uri)
    monkeypatch.setattr(trace_archival_service, "_TRACE_ARCHIVAL_SCHEDULER_LAST_RUN_MONOTONIC", 0.0)
    monkeypatch.setattr(handlers, "_tracking_store", None)
    store = plugin.tracking_store(uri, tmp_path.as_uri())
    experiment_id = store.create_experiment("talks")
    now = get_current_time_millis()
    for n, age in enumerate((2 * 3_600_000, 60_000)):
        start = now - age
        store.log_spans(experiment_id, make_spans(trace_id(n), start=start))
        info = make_info(trace_id(n), experiment_id, start=start, metadata=client_metadata())
        store.start_trace(info)
    before = [span.to_dict() for span in store.get_trace(trace_id(0)).data.spans]
    run_periodic_task("trace_archival_scheduler")
    found, _ = store.search_traces(
        [experiment_id], "tags.`mlflow.trace.spansLocation` = 'ARCHIVE_REPO'"
    )
    assert [info.trace_id for info in found] == [trace_id(0)]
    assert list((tmp_path / "archive").rglob("*"))
    read = plugin.tracking_store(uri, tmp_path.as_uri()).get_trace(trace_id(0))
    assert [span.to_dict() for span in read.data.spans] == before
