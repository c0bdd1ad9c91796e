"""Endpoints that are shared by the tests of the DynamoDB engine."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from mlflow_dynamodbstore.table.contract import Engine
from mlflow_dynamodbstore.table.uri import open_engine
from tests.engines import dynoxide_server, find_dynoxide, moto_server

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def dynoxide() -> Iterator[str]:
    if find_dynoxide() is None:
        pytest.skip("dynoxide is not installed (tools/install_dynoxide.sh installs it with npm)")
    with dynoxide_server() as host:
        yield host


@pytest.fixture(scope="session")
def moto() -> Iterator[str]:
    with moto_server() as host:
        yield host


@pytest.fixture(params=["moto", "dynoxide"])
def endpoint(request: pytest.FixtureRequest) -> str:
    """The ``host:port`` of each DynamoDB there is."""
    host: str = request.getfixturevalue(request.param)
    return host


@pytest.fixture
def new_uri(endpoint: str) -> str:
    """The URI of a table that does not exist yet."""
    return f"dynamodb://{endpoint}/engine-{next(_numbers)}"


@pytest.fixture
def open_table(new_uri: str) -> Iterator[Callable[..., Engine]]:
    """Opens a fresh table, or the same one again."""
    opened: list[Engine] = []

    def open_one(**options) -> Engine:
        opened.append(open_engine(new_uri, **options))
        return opened[-1]

    yield open_one
    for engine in opened:
        engine.close()
