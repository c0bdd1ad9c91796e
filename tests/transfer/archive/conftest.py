"""Tables with something of everything, and empty ones beside them, on both engines."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.transfer.archive.file import write_archive
from mlflow_dynamodbstore.transfer.archive.sources import TableSource
from tests.engines import dynoxide_server, find_dynoxide
from tests.table.fakes import FakeTime, patient_retry
from tests.transfer.archive.populated import populate

Open = Callable[[str], Table]


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
def opened(tmp_path: Path, time: FakeTime) -> Iterator[Open]:
    """Opens a table of a name: in a file, or at a host."""
    tables: list[Table] = []

    def open_(name: str) -> Table:
        host, _, table = name.rpartition("/")
        here = f"dynamodb:///{tmp_path}/{table}.ddb?synchronous=NORMAL"
        uri = f"dynamodb://{host}/{tmp_path.name}.{table}" if host else here
        tables.append(Table(open_engine(uri), clock=time, retry=patient_retry(time)))
        return tables[-1]

    yield open_
    for table in tables:
        table.close()


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table that has something of everything, and its archive, made once."""
    folder = tmp_path_factory.mktemp("model")
    uri = f"dynamodb:///{folder / 'source.ddb'}?synchronous=NORMAL"
    table = Table(open_engine(uri), clock=FakeTime())
    populate(table)
    write_archive(folder / "source.gz", TableSource(table), table.schema, table.clock())
    table.close()
    return folder


@pytest.fixture
def source(model: Path, tmp_path: Path, opened: Open) -> Table:
    """A table with something of everything, for one test."""
    shutil.copy(model / "source.ddb", tmp_path)
    return opened("source")


@pytest.fixture
def path(model: Path, source: Table, tmp_path: Path) -> Path:
    """An archive of that table, for one test."""
    return Path(shutil.copy(model / "source.gz", tmp_path / "table.gz"))
