"""Leases: one holder at a time, until their end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from mlflow_dynamodbstore.jobs.leases import Leases
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from tests.stores import uri_on
from tests.table.fakes import FakeTime


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture(params=["embedded", "dynoxide"])
def leases(request, tmp_path, time):
    with uri_on(request.param, tmp_path) as uri:
        table = Table(open_engine(uri), clock=time)
        yield Leases(Context.on(table))
        table.close()


def test_a_name_has_one_holder(leases):
    assert leases.acquire("n", "ada", 10)
    assert leases.acquire("n", "bob", 10) is None
    assert leases.acquire("other", "bob", 10)


def test_of_many_one_gets_a_name(leases):
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda n: leases.acquire("n", f"holder-{n}", 10), range(32)))
    assert sum(lease is not None for lease in got) == 1


def test_a_name_is_free_after_the_end_of_its_lease(leases, time):
    leases.acquire("n", "ada", 10)
    time.sleep(9)
    assert leases.acquire("n", "bob", 10) is None
    time.sleep(2)
    assert leases.acquire("n", "bob", 10).holder == "bob"


def test_a_renewed_lease_lasts_longer_and_a_lost_one_cannot_be_renewed(leases, time):
    lease = leases.acquire("n", "ada", 10)
    time.sleep(8)
    assert leases.renew(lease, 10).until > lease.until
    time.sleep(8)
    assert leases.acquire("n", "bob", 10) is None
    time.sleep(3)
    assert leases.acquire("n", "bob", 10)
    assert leases.renew(lease, 10) is None


def test_a_released_name_is_free_and_a_lost_one_is_not_released(leases, time):
    lease = leases.acquire("n", "ada", 10)
    assert leases.release(lease)
    other = leases.acquire("n", "bob", 10)
    assert not leases.release(lease)
    assert leases.find("n") == other


def test_a_holder_takes_its_own_name_again(leases, time):
    first = leases.acquire("n", "job-1", 10)
    time.sleep(5)
    again = leases.acquire("n", "job-1", 10)
    assert again.until > first.until
    assert not leases.release(first)


def test_a_lease_known_to_be_void_is_replaced_at_once(leases):
    held = leases.acquire("n", "ada", 1000)
    assert leases.acquire("n", "bob", 10, instead_of=held).holder == "bob"
    assert leases.acquire("n", "eve", 10, instead_of=held) is None
