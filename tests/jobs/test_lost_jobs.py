"""Lost jobs: another runner takes over what a lost one leaves behind, and nothing else."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from mlflow_dynamodbstore.jobs.job_runs import Runner
from mlflow_dynamodbstore.jobs.processes import is_gone, name_of_process
from mlflow_dynamodbstore.jobs.store import DynamoDBJobStore
from mlflow_dynamodbstore.mlflow_compat.jobs import JobStatus
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from tests.releases import needs
from tests.stores import uri_on

LEASE = 60.0
LATER = 1 << 47


class Clock:
    """The real time, and what a test adds to it: jobs are stamped by MLflow's own clock."""

    def __init__(self):
        self.added = 0.0

    def __call__(self):
        return time.time() + self.added


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["embedded", "dynoxide"])
def server(request, tmp_path, clock):
    """Makes the store of a server; all share a table."""
    with uri_on(request.param, tmp_path) as uri:
        table = Table(open_engine(uri), clock=clock)
        yield functools.partial(make_server, table)
        table.close()


def make_server(table, queue, process=None):
    runner = Runner(process or name_of_process(os.getpid()), LEASE)
    return DynamoDBJobStore("", table=table, queue=queue, runner=runner)


@pytest.fixture(scope="module")
def ended_process():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return name_of_process(process.pid)


def taken(store):
    return [job.job_id for job in store.lost_jobs.take_over(LATER)]


def test_a_job_in_the_queue_of_a_live_server_is_left_to_it(server):
    here, there = server("here"), server("there")
    there.lost_jobs.hold_queue(LEASE)
    job = there.create_job("f", "{}")
    assert taken(here) == []
    there.start_job(job.job_id)
    assert taken(here) == []


def test_a_job_that_waits_in_the_queue_of_a_lost_server_is_taken_over(server, clock):
    here, there = server("here"), server("there")
    there.lost_jobs.hold_queue(LEASE)
    job = there.create_job("f", "{}")
    clock.added = LEASE + 1
    assert taken(here) == [job.job_id]
    here.lost_jobs.hold_queue(LEASE)
    assert taken(here) == []
    assert taken(server("third")) == []


def test_a_running_job_is_lost_when_its_lease_has_ended(server, clock):
    here, there = server("here"), server("there")
    there.lost_jobs.hold_queue(10 * LEASE)
    job = there.create_job("f", "{}")
    there.start_job(job.job_id)
    clock.added = LEASE + 1
    assert taken(here) == [job.job_id]
    assert here.get_job(job.job_id).status == JobStatus.PENDING


def test_a_job_whose_lease_is_renewed_is_not_lost(server, clock):
    here, there = server("here"), server("there")
    there.lost_jobs.hold_queue(10 * LEASE)
    job = there.create_job("f", "{}")
    there.start_job(job.job_id)
    there.renew_job_lease(job.job_id, 10 * LEASE)
    clock.added = LEASE + 1
    assert taken(here) == []


def test_a_killed_runner_on_the_same_machine_is_noticed_at_once(server, ended_process):
    store = server("here", ended_process)
    job = store.create_job("f", "{}")
    store.start_job(job.job_id)
    assert taken(server("here")) == [job.job_id]


@needs("a second engine")  # its runner gives jobs up when it ends
def test_a_job_that_a_runner_gave_up_is_taken_over_when_that_runner_is_gone(server, ended_process):
    """By the next runner of its server, which has the same queue, or by another server."""
    there = server("there", ended_process)
    there.lost_jobs.hold_queue(LEASE)
    for taker in (server("there"), server("here")):
        job = there.create_job("f", "{}")
        there.claim_job(job.job_id, LEASE)
        there.mark_job_needs_recovery(job.job_id)
        assert taken(taker) == [job.job_id]
        taker.start_job(job.job_id)
        assert taken(taker) == []


@needs("a second engine")  # its runner gives jobs up when it ends
def test_a_job_that_a_runner_gave_up_is_left_to_it_as_long_as_it_lives(server, clock):
    """Its process may still be there. The runner need not be that of the server that was asked."""
    here, there = server("here"), server("there", "another machine/7")
    here.lost_jobs.hold_queue(10 * LEASE)
    there.lost_jobs.hold_queue(LEASE)
    job = here.create_job("f", "{}")
    there.claim_job(job.job_id, LEASE)
    there.mark_job_needs_recovery(job.job_id)
    assert taken(here) == []
    clock.added = LEASE + 1
    assert taken(here) == [job.job_id]


def test_a_server_on_the_same_machine_that_is_gone_is_noticed_at_once(server, ended_process):
    there = server("there")
    there.leases.acquire("queue there", ended_process, LEASE)
    job = there.create_job("f", "{}")
    assert taken(server("here")) == [job.job_id]


def test_a_job_is_not_tried_before_its_next_attempt_is_due(server, clock):
    here, there = server("here"), server("there")
    job = there.create_job("f", "{}")
    there.start_job(job.job_id)
    assert there.retry_or_fail_job(job.job_id, "busy") == 1
    assert taken(here) == []
    assert here.lost_jobs.claim(job.job_id, LEASE) is None
    clock.added = 60
    assert here.lost_jobs.claim(job.job_id, LEASE)
    assert taken(here) == [job.job_id]


def test_of_many_servers_one_takes_a_lost_job(server, clock):
    lost = [server("gone").create_job("f", "{}").job_id for _ in range(5)]
    clock.added = LEASE + 1
    servers = [server(f"server-{n}") for n in range(6)]
    for store in servers:
        store.lost_jobs.hold_queue(LEASE)
    with ThreadPoolExecutor(6) as pool:
        found = [job_id for each in pool.map(taken, servers) for job_id in each]
    assert sorted(found) == sorted(lost)


def test_an_ended_job_is_not_lost(server, clock):
    store = server("gone")
    job = store.create_job("f", "{}")
    store.start_job(job.job_id)
    store.finish_job(job.job_id, "1")
    clock.added = 10 * LEASE
    assert taken(server("here")) == []


def test_a_job_that_fell_out_of_its_queue_is_found(server):
    """The process that took it from the queue was killed before it started the job."""
    store = server("here")
    queued, fallen = (store.create_job("f", "{}").job_id for _ in range(2))
    missing = store.lost_jobs.missing_from([queued], LATER)
    assert [job.job_id for job in missing] == [fallen]


def test_a_job_that_is_in_two_queues_is_claimed_once(server):
    here, there = server("here"), server("there")
    job_id = here.create_job("f", "{}").job_id
    with ThreadPoolExecutor(8) as pool:
        claims = list(
            pool.map(lambda n: (here, there)[n % 2].lost_jobs.claim(job_id, LEASE), range(16))
        )
    assert sum(claim is not None for claim in claims) == 1


def test_the_claim_of_a_process_that_is_gone_is_void(server, ended_process):
    store = server("here")
    job_id = store.create_job("f", "{}").job_id
    store.leases.acquire(f"job {job_id}", f"{ended_process} x", LEASE)
    assert store.lost_jobs.claim(job_id, LEASE)


def test_a_job_that_runs_or_has_ended_is_not_claimed(server):
    store = server("here")
    job_id = store.create_job("f", "{}").job_id
    store.start_job(job_id)
    assert store.lost_jobs.claim(job_id, LEASE) is None
    store.finish_job(job_id, "1")
    assert store.lost_jobs.claim(job_id, LEASE) is None


def test_processes_elsewhere_are_never_known_to_be_gone(ended_process):
    assert is_gone(ended_process)
    assert not is_gone(name_of_process(os.getpid()))
    assert not is_gone("another-boot/4026531836/999999")
    assert not is_gone("")
