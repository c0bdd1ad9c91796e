"""The limit on wrong passwords: over all processes, for all names alike, and what it costs."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.auth import passwords, users
from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from tests.auth.stores import PASSWORD
from tests.table.fakes import FakeTime


@pytest.fixture
def cheap(monkeypatch):
    """Hashes that cost next to nothing, and a list of those that were computed."""
    computed = []

    def check(stored, password):
        computed.append(stored)
        return stored == f"plain:{password}"

    monkeypatch.setattr(passwords, "check_password_hash", check)
    for module in (passwords, users):
        monkeypatch.setattr(module, "generate_password_hash", "plain:{}".format)
    return computed


@pytest.fixture
def processes(tmp_path, cheap):
    """Two stores on one table, as two processes have them, with a clock that tests move."""
    time = FakeTime()
    uri = f"dynamodb:///{tmp_path / 'logins.ddb'}?synchronous=NORMAL"
    made = [
        DynamoDBAuthStore(uri, table=Table(MeteredEngine(open_engine(uri)), clock=time))
        for _ in range(2)
    ]
    made[0].create_user("ada", PASSWORD)
    yield made, time
    for store in made:
        store.table.close()


@pytest.mark.parametrize("name", ["ada", "nobody", "n" * 5000, "a#U#META"])
def test_the_limit_on_wrong_passwords_holds_over_all_processes(processes, cheap, name):
    """Each process tries half as often, also for a name that nobody has."""
    stores, time = processes
    for n in range(passwords.MOST_FAILURES):
        assert not stores[n % 2].authenticate_user(name, "wrong")
    tried = len(cheap)
    for store in stores:
        assert not store.authenticate_user(name, PASSWORD)
    assert len(cheap) == tried  # no more hashes are computed
    time.sleep(passwords.WINDOW_SECONDS + 1)
    for store in stores:
        store.users.passwords._failures.clear()  # this process counts by its own clock
    for store in stores:
        assert store.authenticate_user(name, PASSWORD) == (name == "ada")
    assert len(cheap) == tried + 2


def test_a_right_password_ends_the_count_in_all_processes(processes):
    stores, _ = processes
    for _ in range(passwords.MOST_FAILURES - 1):
        assert not stores[0].authenticate_user("ada", "wrong")
    assert stores[1].authenticate_user("ada", PASSWORD)
    assert not stores[1].authenticate_user("ada", "wrong")
    assert stores[0].authenticate_user("ada", PASSWORD)


def test_logging_in_costs_one_read_and_a_wrong_password_one_write(processes):
    """A name that nobody has costs the same, so that the time tells nothing."""
    (store, _), _ = processes
    meter = store.table.engine.meter

    def requests(name, password):
        with meter.measure() as used:
            store.authenticate_user(name, password)
        return dict(used.requests)

    wrong = {"BatchGetItem": 1, "UpdateItem": 1}
    assert requests("nobody", "wrong") == wrong
    assert requests("ada", "wrong") == wrong
    assert requests("ada", PASSWORD) == {"BatchGetItem": 1, "DeleteItem": 1}
    assert requests("ada", PASSWORD) == {"GetItem": 1}
    assert requests("ada", PASSWORD) == {}
    assert requests("ada", "wrong") == wrong  # although much about her is cached by now


def test_wrong_passwords_leave_the_memory_of_checks_alone(processes):
    (store, _), _ = processes
    for _ in range(2):  # the second time from the cache
        assert store.authenticate_user("ada", PASSWORD)
    known = len(store.answers)
    assert not store.authenticate_user("nobody", "wrong")
    assert len(store.answers) == known > 0
