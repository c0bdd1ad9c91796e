"""Tracking stores on both engines, with a clock that tests move."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.engines import dynoxide_server, find_dynoxide
from tests.stores import ARTIFACTS
from tests.table.fakes import FakeTime, patient_retry


@pytest.fixture(scope="session")
def dynoxide_host() -> Iterator[str]:
    if find_dynoxide() is None:
        pytest.skip("dynoxide is not installed (tools/install_dynoxide.sh installs it with npm)")
    with dynoxide_server() as host:
        yield host


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def table(tmp_path: Path, time: FakeTime) -> Iterator[Table]:
    """A table in a file."""
    uri = f"dynamodb:///{tmp_path / 'mlflow.ddb'}?synchronous=NORMAL"
    opened = Table(open_engine(uri), clock=time, retry=patient_retry(time))
    yield opened
    opened.close()


@pytest.fixture
def store(table: Table) -> DynamoDBTrackingStore:
    """A tracking store on a file."""
    return DynamoDBTrackingStore("", ARTIFACTS, table=table)


@pytest.fixture(params=["embedded", "dynamodb"])
def either_store(
    request: pytest.FixtureRequest, tmp_path: Path, time: FakeTime
) -> Iterator[DynamoDBTrackingStore]:
    """A tracking store on each of the two engines."""
    if request.param == "embedded":
        uri = f"dynamodb:///{tmp_path / 'mlflow.ddb'}?synchronous=NORMAL"
    else:
        host = request.getfixturevalue("dynoxide_host")
        uri = f"dynamodb://{host}/{tmp_path.name}"
    table = Table(open_engine(uri), clock=time, retry=patient_retry(time))
    yield DynamoDBTrackingStore("", ARTIFACTS, table=table)
    table.close()
