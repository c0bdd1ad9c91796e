"""A registry on an empty file for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.table.contract import Engine
from tests.registry.helpers import engine_of, registry_on
from tests.table.fakes import FakeTime


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = engine_of(tmp_path)
    yield made
    made.close()


@pytest.fixture
def store(engine: Engine, time: FakeTime) -> DynamoDBRegistryStore:
    return registry_on(engine, time)


@pytest.fixture
def other(engine: Engine, time: FakeTime) -> DynamoDBRegistryStore:
    """The same registry as another process sees it."""
    return registry_on(engine, time)
