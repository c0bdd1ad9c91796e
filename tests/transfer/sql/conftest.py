"""A filled database, made once, and tables to import it into."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from tests.transfer.sql.mlflow_database import Theirs, filled


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with something of everything; not to be changed."""
    folder = tmp_path_factory.mktemp("filled")
    filled(folder)
    return folder / "theirs.db"


@pytest.fixture
def source(template: Path, tmp_path: Path) -> Theirs:
    """A copy of it."""
    shutil.copyfile(template, tmp_path / "source.db")
    return Theirs(f"sqlite:///{tmp_path}/source.db")


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    made = Table(open_engine(f"dynamodb:///{tmp_path}/mlflow.ddb?synchronous=NORMAL"))
    yield made
    made.close()
