"""The command line as a person calls it, on a table in a file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.shared.policies import Policies
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.stores import ARTIFACTS


class CommandLine:
    """Calls commands; with a URI, all of them are about that table."""

    def __init__(self, uri: str | None = None):
        self.uri = uri

    def __call__(self, *arguments: str, code: int = 0, typed: str | None = None) -> Result:
        """What a call printed; it must end with this code."""
        table = ["--uri", self.uri] if self.uri else []
        result = CliRunner().invoke(main, [*table, *arguments], input=typed)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    def json(self, *arguments: str, code: int = 0) -> Any:
        """What a call printed for programs."""
        return json.loads(self(*arguments, "--json", code=code).stdout)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The settings that commands waited for; they need not in tests."""
    waited: list[str] = []
    monkeypatch.setattr(Policies, "wait_until_known", lambda _, name, *rest: waited.append(name))
    return waited


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"dynamodb:///{tmp_path / 'mlflow.ddb'}?synchronous=NORMAL"


@pytest.fixture
def run(uri: str) -> CommandLine:
    """The command line on an empty table."""
    open_engine(uri).close()
    return CommandLine(uri)


@pytest.fixture
def anywhere() -> CommandLine:
    """The command line without a table."""
    return CommandLine()


def store_at(uri: str, clock: Callable[[], float] = time.time) -> DynamoDBTrackingStore:
    """A tracking store on the table of a URI, with a clock of the test's own."""
    return DynamoDBTrackingStore("", ARTIFACTS, table=Table(open_engine(uri), clock=clock))


@pytest.fixture
def store(uri: str) -> DynamoDBTrackingStore:
    return store_at(uri)
