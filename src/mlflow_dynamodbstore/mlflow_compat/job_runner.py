"""Letting MLflow's server run background jobs from our store.

MLflow makes its job store itself, only for SQL databases, in the server, in the job runner, in its
consumers and in the process of each job. All of them load our entry points, so in all of them we
replace the functions that make the store and that refuse other URIs. MLflow's first engine keeps
its queue and its locks in local files, and forgets a runner that is killed. For stores of ours the
locks are in the table, a job that runs has a lease, and what a runner leaves behind is taken over.

For other stores everything is as it was. In a release that lacks one of the names that we replace,
jobs stay off and the server says which name is missing.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from mlflow.environment_variables import (
    MLFLOW_ENABLE_WORKSPACES,
    MLFLOW_SERVER_ENABLE_JOB_EXECUTION,
)
from mlflow.exceptions import MlflowException
from mlflow.version import VERSION

from mlflow_dynamodbstore.mlflow_compat.job_locks import huey_instance, lock_manager
from mlflow_dynamodbstore.mlflow_compat.job_server import (
    RENEWALS,
    current_job,
    in_workspace,
    logger,
    our_store,
    renewed,
)
from mlflow_dynamodbstore.mlflow_compat.jobs import lease_seconds
from mlflow_dynamodbstore.mlflow_compat.post_import import replace
from mlflow_dynamodbstore.mlflow_compat.server_settings import (
    BACKEND_STORE_URI,
    backend_uri,
    is_ours,
)

MOST_SERVER_START_SECONDS = 120.0
TRACKING_URI = "MLFLOW_TRACKING_URI"  # the server's own address, for its jobs
ORPHAN_SECONDS = 3
"""After this time the process of a job whose runner is gone is gone too: it looks each second."""
CALLED = (
    "_job_name_to_fn_fullname_map",
    "_load_function",
    "_workspace_contexts_for_recovery",
    "get_job_fn_fullname",
    "is_process_alive",
)
"""What recovering jobs needs of ``mlflow.server.jobs.utils``, as it is."""
MakeStore = Callable[[str], Any]

_recovering = threading.Lock()
_missing: list[str] = []
"""Names that this release lacks and without which jobs would not be safe."""


def replace_in_handlers(make_store: MakeStore, handlers: ModuleType) -> None:
    """Let ``mlflow.server.handlers`` make our store."""
    _must_replace(handlers, "_get_job_store", functools.partial(_job_store, handlers, make_store))
    replace(handlers, "build_server_info_payload", _server_info)  # from MLflow 3.17 on


def replace_in_utils(utils: ModuleType) -> None:
    """Let ``mlflow.server.jobs.utils`` accept our URIs, and keep jobs that run apart."""
    with_module: dict[str, Callable[..., Any]] = {
        "_check_requirements": _check_requirements,
        "_exec_job": _exec_job,
        "_get_or_init_huey_instance": huey_instance,
        "_launch_job_runner": _launch_runner,
        "_start_watcher_to_kill_job_runner_if_mlflow_server_dies": _start_watcher,
        "_enqueue_unfinished_jobs": _enqueue_unfinished_jobs,
    }
    for name, replacement in with_module.items():
        _must_replace(utils, name, functools.partial(replacement, utils))
    for name in CALLED:
        _must_have(utils, name)
    # Of the second engine, from MLflow 3.17 on.
    has_it = "get_job_execution_engine" in vars(utils)
    replace_one: Callable[..., object] = _must_replace if has_it else replace
    for name, other in (
        ("_launch_executor_runner", _launch_runner),
        ("_for_each_unfinished_job", _for_each_unfinished_job),
    ):
        replace_one(utils, name, functools.partial(other, utils))


def replace_in_locks(locks: ModuleType) -> None:
    """Let ``mlflow.server.jobs.lock_manager`` keep locks in our table."""
    _must_replace(locks, "JobLockManager", functools.partial(lock_manager, locks))
    for name in ("JobLock", "SchedulerLease"):
        _must_have(locks, name)


def _must_replace(module: ModuleType, name: str, replacement: Callable[..., Any]) -> None:
    if not replace(module, name, replacement):
        _missing.append(f"{module.__name__}.{name}")


def _must_have(module: ModuleType, name: str) -> None:
    if name not in vars(module):
        _missing.append(f"{module.__name__}.{name}")


# --- the store ----------------------------------------------------------------------------------


def _job_store(
    handlers: ModuleType,
    make_store: MakeStore,
    theirs: Callable[..., Any],
    backend_store_uri: str | None = None,
) -> Any:
    """The one store of this process, in the variable where MLflow keeps it."""
    uri = backend_store_uri or backend_uri()
    if uri is None or not is_ours(uri):
        return theirs(backend_store_uri)
    variables = vars(handlers)
    if variables.get("_job_store") is None:
        variables["_job_store"] = make_store(uri)
    return variables["_job_store"]


def _server_info(theirs: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """What the server says of itself: without jobs, that it archives no traces."""
    said = theirs()
    runs_jobs = MLFLOW_SERVER_ENABLE_JOB_EXECUTION.get() and _refusal() is None
    if is_ours(backend_uri()) and not runs_jobs:
        said["trace_archival_enabled"] = False
    return said


def _check_requirements(
    utils: ModuleType, theirs: Callable[..., None], backend_store_uri: str | None = None
) -> None:
    del utils
    if not is_ours(backend_store_uri or backend_uri()):
        theirs(backend_store_uri)
        return
    if (refusal := _refusal()) is not None:
        raise MlflowException(refusal)


def _refusal() -> str | None:
    """Why a server on our store cannot run jobs; None if it can."""
    if os.name == "nt":
        return "MLflow job backend does not support Windows system."
    if _missing:
        names = ", ".join(sorted(_missing))
        return f"Background jobs cannot be used with MLflow {VERSION}, which lacks {names}"
    return None


# --- a job that runs ----------------------------------------------------------------------------


def _exec_job(
    utils: ModuleType,
    theirs: Callable[..., None],
    job_id: str,
    workspace: str | None,
    *args: Any,
    **kwargs: Any,
) -> None:
    """Run a job that waits. Its lease is renewed until it ends."""
    del utils
    store = our_store()
    if store is None:
        theirs(job_id, workspace, *args, **kwargs)
        return
    with in_workspace(workspace):
        claim = store.lost_jobs.claim(job_id, lease_seconds())
    if claim is None:
        logger.info("Job %s has been started elsewhere, or has ended.", job_id)
        return

    def renew() -> None:
        store.leases.renew(claim, lease_seconds())
        with in_workspace(workspace):
            # Not applied before the job has started and after it has ended.
            store.renew_job_lease(job_id, lease_seconds())

    marked = current_job.set(job_id)
    try:
        with renewed(renew, f"job {job_id}"):
            theirs(job_id, workspace, *args, **kwargs)
    finally:
        current_job.reset(marked)
        store.leases.release(claim)


# --- the runner ---------------------------------------------------------------------------------


def _launch_runner(
    utils: ModuleType, theirs: Callable[..., Any], env_map: dict[str, str], server_proc_pid: int
) -> Any:
    """Start the job runner, and start it again if it ends before the server does.

    Its processes import MLflow for as long as the server does. So it waits for the server, which
    people wait for.
    """
    if not is_ours(env_map.get(BACKEND_STORE_URI)):
        return theirs(env_map, server_proc_pid)

    def is_alive() -> bool:
        return bool(vars(utils)["is_process_alive"](server_proc_pid))

    def keep_running() -> None:
        if not _wait_for_server(env_map.get(TRACKING_URI), is_alive):
            return
        while True:
            code = theirs(env_map, server_proc_pid).wait()
            time.sleep(1)
            if not is_alive():
                return
            logger.warning("The job runner has ended with code %s and is started again.", code)

    threading.Thread(target=keep_running, name="job-runner-restarter", daemon=True).start()
    return None


def _wait_for_server(url: str | None, is_alive: Callable[[], bool]) -> bool:
    """Wait until a server takes connections, but not for ever; False when it has ended."""
    if url is None:
        return True
    host, _, port = url.rpartition("//")[2].rpartition(":")
    deadline = time.monotonic() + MOST_SERVER_START_SECONDS
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except OSError:
            if not is_alive():
                return False
            time.sleep(0.2)
        else:
            return True
    return is_alive()


def _start_watcher(
    utils: ModuleType, theirs: Callable[..., None], *args: Any, **kwargs: Any
) -> None:
    """In the runner: hold this server's queue, and take over what others have left behind."""
    theirs(*args, **kwargs)
    store = our_store()
    if store is None:
        return

    def hold_and_recover() -> None:
        recovered = time.monotonic()
        while True:
            seconds = lease_seconds()
            try:
                store.lost_jobs.hold_queue(seconds)
                if time.monotonic() - recovered >= seconds:
                    _recover(utils, store, int((time.time() - seconds) * 1000))
                    recovered = time.monotonic()
            except Exception:  # noqa: BLE001 - tried again soon
                logger.exception("Jobs without a runner could not be looked for.")
            time.sleep(seconds / RENEWALS)

    store.lost_jobs.hold_queue(lease_seconds())
    threading.Thread(target=hold_and_recover, name="job-recovery", daemon=True).start()


def _enqueue_unfinished_jobs(
    utils: ModuleType, theirs: Callable[..., None], server_launching_timestamp: int
) -> None:
    """What the runner does once, soon after it has been started."""
    store = our_store()
    if store is None:
        theirs(server_launching_timestamp)
    else:
        _recover(utils, store, server_launching_timestamp)


def _for_each_unfinished_job(
    utils: ModuleType, theirs: Callable[..., None], *args: Any, **kwargs: Any
) -> None:
    """What the second engine's runner does then. Its scheduler finds all jobs that wait."""
    store = our_store()
    if store is None:
        theirs(*args, **kwargs)
    else:
        until = int(kwargs.get("end_timestamp", args[2] if len(args) > 2 else 0))
        _recover(utils, store, until)


def _recover(utils: ModuleType, store: Any, until: int) -> None:
    """Take over the lost jobs of all workspaces, and put them into this server's queue."""
    with _recovering:  # one that has been taken over, and is not in the queue yet, is not missing
        _take_over(utils, store, until)


def _take_over(utils: ModuleType, store: Any, until: int) -> None:
    scheduled = vars(utils).get("get_job_execution_engine", lambda: "huey")() == "executor"
    for context in vars(utils)["_workspace_contexts_for_recovery"]():
        with context as workspace:
            lost = list(store.lost_jobs.take_over(until))
            if scheduled:
                continue
            queued = {*_queued(utils), *(job.job_id for job in lost)}
            lost += store.lost_jobs.missing_from(queued, until)
            if lost:
                time.sleep(ORPHAN_SECONDS)
            for job in lost:
                _enqueue(utils, job, workspace)


def _queued(utils: ModuleType) -> Iterator[str]:
    """The jobs in this server's queue, those included that wait for another attempt."""
    for name in vars(utils)["_job_name_to_fn_fullname_map"]:
        huey = vars(utils)["_get_or_init_huey_instance"](name).instance
        for task in (*huey.pending(), *huey.scheduled()):
            yield task.args[0]


def _enqueue(utils: ModuleType, job: Any, workspace: str | None) -> None:
    names = vars(utils)
    try:
        function = names["_load_function"](names["get_job_fn_fullname"](job.job_name))
    except MlflowException:
        logger.warning("Job %s waits for a server that knows %s.", job.job_id, job.job_name)
        return
    names["_get_or_init_huey_instance"](job.job_name).submit_task(
        job.job_id,
        _workspace_of(job, workspace),
        job.job_name,
        json.loads(job.params),
        job.timeout,
        vars(function)["_job_fn_metadata"].exclusive,
    )
    logger.info("Job %s (%s) has been taken over.", job.job_id, job.job_name)


def _workspace_of(job: Any, workspace: str | None) -> str | None:
    return (job.workspace or workspace) if MLFLOW_ENABLE_WORKSPACES.get() else None
