"""Background jobs: claims, results, lists, workspaces, and what each call costs."""

from __future__ import annotations

import inspect
import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from mlflow.entities import Workspace
from mlflow.entities.workspace import WorkspaceDeletionMode
from mlflow.environment_variables import (
    MLFLOW_ENABLE_WORKSPACES,
    MLFLOW_SERVER_JOB_TRANSIENT_ERROR_MAX_RETRIES,
    MLFLOW_SERVER_JOB_TRANSIENT_ERROR_RETRY_BASE_DELAY,
)
from mlflow.exceptions import MlflowException
from mlflow.store.jobs.sqlalchemy_store import SqlAlchemyJobStore
from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.jobs import jobs as module
from mlflow_dynamodbstore.jobs.store import DynamoDBJobStore
from mlflow_dynamodbstore.mlflow_compat.jobs import JobProgress, JobStatus, JobUpdateStatus
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore
from tests.releases import needs
from tests.stores import everything_in, refused, uri_on
from tests.table.fakes import FakeTime

APPLIED, WRONG = JobUpdateStatus.APPLIED, JobUpdateStatus.WRONG_STATE
LONG = "x" * 900_000 + "é"


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture(params=["embedded", "dynoxide"])
def metered(request, tmp_path):
    with uri_on(request.param, tmp_path) as uri:
        lagging = "&index_lag=60" if request.param == "embedded" else ""
        yield MeteredEngine(open_engine(uri + lagging))


@pytest.fixture
def store(metered, time):
    made = DynamoDBJobStore("", table=Table(metered, clock=time))
    yield made
    made.table.close()


def ids_of(jobs):
    return [job.job_id for job in jobs]


# --- as MLflow's own ----------------------------------------------------------------------------


CALLS: dict[str, Any] = {
    "claim_job": [(), (30.0,), (-1.0,), (float("inf"),)],
    "renew_job_lease": [(10.0,), (None,)],
    "retry_job": [()],
    "mark_job_needs_recovery": [()],
    "reattach_job": [(), (5.0,)],
    "requeue_job": [()],
    "report_job_result": [
        (JobStatus.SUCCEEDED, "1"),
        (JobStatus.SUCCEEDED, "1", "odd"),
        (JobStatus.FAILED, None, "broken"),
        (JobStatus.FAILED, "1", "broken"),
        (JobStatus.TIMEOUT,),
        (JobStatus.TIMEOUT, "1"),
        (JobStatus.CANCELED,),
        (JobStatus.RUNNING,),
    ],
    "start_job": [()],
    "reset_job": [()],
    "finish_job": [('{"a": 1}',)],
    "mark_job_timed_out": [()],
    "fail_job": [("an error",)],
    "retry_or_fail_job": [("an error",)],
    "cancel_job": [()],
    "update_status_details": [({"stage": "a"},), ({"other": [1, None]},), ({},)],
    "update_job_progress": [(), ("half",), (None, JobProgress("p", 1, 2, "rows"))],
    "get_job": [()],
}
TIMES = ("creation_time", "last_update_time", "lease_expires_at", "progress_updated_at")


def shown(job):
    """All that a job shows, without its id and its times."""
    seen = {
        name: getattr(job, name)
        for name, member in inspect.getmembers(type(job))
        if isinstance(member, property) and name not in ("job_id", *TIMES)
    }
    return seen | {name: getattr(job, name) is None for name in TIMES}


def outcome(store, name, job_id, arguments):
    try:
        answer = getattr(store, name)(job_id, *arguments)
    except MlflowException as error:
        return error.error_code, error.message.replace(job_id, "<id>")
    return shown(answer) if hasattr(answer, "job_id") else answer


@needs("jobs that are recovered")
def test_any_sequence_of_calls_has_the_same_outcome_as_on_mlflows_store(
    store, tmp_path, monkeypatch
):
    monkeypatch.setenv(MLFLOW_SERVER_JOB_TRANSIENT_ERROR_MAX_RETRIES.name, "2")
    monkeypatch.setenv(MLFLOW_SERVER_JOB_TRANSIENT_ERROR_RETRY_BASE_DELAY.name, "0")
    theirs, chance = SqlAlchemyJobStore(f"sqlite:///{tmp_path / 'jobs.db'}"), random.Random(8)
    made = (("f", "{}"), ("g", '{"a": 1}', 2.5, "ada", "local"))
    pairs = [(store.create_job(*given), theirs.create_job(*given)) for given in made * 8]
    calls = [(name, arguments) for name, choices in CALLS.items() for arguments in choices]
    for _ in range(80):
        name, arguments = chance.choice(calls)
        ours, other = chance.choice(pairs)
        expected = outcome(theirs, name, other.job_id, arguments)
        assert outcome(store, name, ours.job_id, arguments) == expected, (name, arguments)
        assert shown(store.get_job(ours.job_id)) == shown(theirs.get_job(other.job_id)), name
    for statuses in (None, [JobStatus.PENDING], list(JobStatus)):
        listed = [shown(job) for job in store.list_jobs(statuses=statuses)]
        assert sorted(map(str, listed)) == sorted(
            str(shown(job)) for job in theirs.list_jobs(statuses=statuses)
        )


@pytest.mark.parametrize("name", CALLS)
def test_a_job_that_does_not_exist_is_not_found(store, name):
    arguments = ("half",) if name == "update_job_progress" else CALLS[name][0]
    with refused("RESOURCE_DOES_NOT_EXIST", "Job with ID none not found"):
        getattr(store, name)("none", *arguments)


# --- running ------------------------------------------------------------------------------------


def test_of_several_who_claim_a_job_one_gets_it(store):
    job = store.create_job("f", "{}").job_id
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: store.claim_job(job, 10), range(8)))
    assert sorted(answers) == sorted([APPLIED] + [WRONG] * 7)


def test_a_job_that_failed_waits_longer_each_time(store, time, monkeypatch):
    monkeypatch.setenv(MLFLOW_SERVER_JOB_TRANSIENT_ERROR_RETRY_BASE_DELAY.name, "10")
    job = store.create_job("f", "{}").job_id
    for retries, delay in ((1, 10), (2, 20)):
        store.start_job(job)
        assert store.retry_or_fail_job(job, "not now") == retries
        time.sleep(delay - 1)
        assert store.claim_job(job) == WRONG
        time.sleep(1)
        assert store.claim_job(job) == APPLIED
        assert store.retry_job(job) == retries + 1
        store.table.update(
            store.status_changes.key(job), Update(set={"retries": retries})
        )  # as before the last retry
    store.reset_job(job)
    assert store.claim_job(job) == APPLIED  # a reset job does not wait


def test_details_that_are_told_at_once_are_all_kept(store):
    job = store.create_job("f", "{}").job_id
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: store.update_status_details(job, {f"k{n}": n}), range(12)))
    assert store.get_job(job).status_details == {f"k{n}": n for n in range(12)}


# --- long texts ---------------------------------------------------------------------------------


def test_texts_of_any_length_are_kept_and_leave_nothing_behind(store):
    params = json.dumps({"text": random.Random(0).randbytes(600_000).hex()})
    job = store.create_job("f", params)
    assert store.get_job(job.job_id).params == job.params == params
    for n in range(2):
        store.update_status_details(job.job_id, {"text": LONG, "n": n})
    store.finish_job(job.job_id, LONG)
    (listed,) = store.list_jobs(params={"text": json.loads(params)["text"]})
    assert (listed.params, listed.result) == (params, LONG)
    assert listed.status_details == {"text": LONG, "n": 1}
    assert store.delete_jobs() == [job.job_id]
    assert everything_in(store.table) == []


def test_a_refused_result_leaves_nothing_behind(store):
    job = store.create_job("f", "{}").job_id
    store.cancel_job(job)
    before = everything_in(store.table)
    result = random.Random(0).randbytes(600_000).hex()
    with refused("INVALID_PARAMETER_VALUE", "already finalized with status: CANCELED"):
        store.finish_job(job, result)
    assert everything_in(store.table) == before


# --- lists --------------------------------------------------------------------------------------


@pytest.fixture
def hours(monkeypatch):
    """The milliseconds in which jobs are created: 1000, 1001, ..."""
    clock = iter(range(1000, 10_000))
    monkeypatch.setattr(module, "get_current_time_millis", lambda: next(clock))


def test_jobs_are_listed_by_age_with_every_filter_page_by_page(store, hours, monkeypatch):
    monkeypatch.setattr(module, "PAGE", 3)
    made = [
        store.create_job("even" if n % 2 == 0 else "odd", json.dumps({"n": n % 3, "x": 1})).job_id
        for n in range(20)
    ]
    for job in made[5:]:
        store.start_job(job)
    for job in made[10:]:
        store.finish_job(job, "1")
    pending, running, done = JobStatus.PENDING, JobStatus.RUNNING, JobStatus.SUCCEEDED
    assert ids_of(store.list_jobs()) == made
    assert ids_of(store.list_jobs("odd")) == made[1::2]
    assert ids_of(store.list_jobs(statuses=[running])) == made[5:10]
    assert ids_of(store.list_jobs(statuses=[done, pending])) == made[:5] + made[10:]
    assert ids_of(store.list_jobs(params={"n": 1, "x": 1})) == made[1::3]
    assert ids_of(store.list_jobs(params={"n": 1, "y": 1})) == []
    for statuses in (None, list(JobStatus)):
        between = store.list_jobs(statuses=statuses, begin_timestamp=1004, end_timestamp=1012)
        assert ids_of(between) == made[4:13]


def test_only_ended_jobs_are_deleted(store, hours):
    made = [store.create_job("f", "{}").job_id for _ in range(6)]
    for job in made[:4]:
        store.finish_job(job, "1")
    assert store.delete_jobs(job_ids=[made[0], made[5], "none"]) == [made[0]]
    assert store.delete_jobs(older_than=4, job_ids=made) == [made[1]]  # it is 1006 now
    assert store.delete_jobs() == made[2:4]
    assert ids_of(store.list_jobs()) == made[4:]


# --- workspaces ---------------------------------------------------------------------------------


def test_no_method_reaches_the_jobs_of_another_workspace(store, monkeypatch):
    monkeypatch.setenv(MLFLOW_ENABLE_WORKSPACES.name, "true")
    with WorkspaceContext("team-a"):
        job = store.create_job("f", "{}")
        store.start_job(job.job_id)
        assert job.workspace == "team-a"
        before = everything_in(store.table)
    with WorkspaceContext("team-b"):
        for name, choices in CALLS.items():
            arguments = choices[1] if name == "update_job_progress" else choices[0]
            with refused("RESOURCE_DOES_NOT_EXIST", "not found"):
                getattr(store, name)(job.job_id, *arguments)
        assert list(store.list_jobs()) == list(store.list_jobs(statuses=list(JobStatus))) == []
        assert store.delete_jobs() == store.delete_jobs(job_ids=[job.job_id]) == []
    assert everything_in(store.table) == before


@pytest.mark.parametrize("mode", [WorkspaceDeletionMode.CASCADE, WorkspaceDeletionMode.SET_DEFAULT])
def test_jobs_go_or_move_with_their_workspace(store, monkeypatch, mode):
    monkeypatch.setenv(MLFLOW_ENABLE_WORKSPACES.name, "true")
    workspaces = DynamoDBWorkspaceStore("", table=store.table)
    workspaces.create_workspace(Workspace("team-a"))
    with WorkspaceContext("team-a"):
        job = store.create_job("f", json.dumps(random.Random(0).randbytes(600_000).hex()))
    with refused("INVALID_STATE", "table 'jobs' still contains 1"):
        workspaces.delete_workspace("team-a", WorkspaceDeletionMode.RESTRICT)
    workspaces.delete_workspace("team-a", mode)
    with WorkspaceContext("team-a"):
        assert list(store.list_jobs()) == []
    with WorkspaceContext("default"):
        kept = [] if mode == WorkspaceDeletionMode.CASCADE else [job.params]
        assert [moved.params for moved in store.list_jobs()] == kept


# --- costs --------------------------------------------------------------------------------------


def test_what_it_costs(store, metered):
    def requests(call):
        with metered.meter.measure() as used:
            call()
        return used.total_requests

    job = store.create_job("f", "{}").job_id
    for _ in range(50):
        store.finish_job(store.create_job("g", "{}").job_id, "1")
    assert requests(lambda: store.create_job("f", "{}")) == 1
    assert requests(lambda: store.claim_job(job, 10)) == 1
    assert requests(lambda: store.renew_job_lease(job, 10)) == 1
    assert requests(lambda: store.get_job(job)) == 1
    assert requests(lambda: list(store.list_jobs(statuses=[JobStatus.PENDING]))) == 1
    assert requests(lambda: store.finish_job(job, "1")) == 1
