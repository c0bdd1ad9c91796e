"""Two backings for every test: a file with a folder, and dynoxide with moto's S3."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from tests.engines import dynoxide_server, find_dynoxide, moto_server
from versioned import Repository
from versioned.keys import TABLE

BUCKET = "artifacts"


@dataclass
class Clock:
    """A clock that a test moves."""

    now: float = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += days * 86_400


@dataclass
class Backing:
    """A fresh table and a fresh storage, and repositories opened on them."""

    table_uri: str
    storage_uri: str
    session: Any = None
    opened: list[Repository] = field(default_factory=list)

    def open(self, **options: Any) -> Repository:
        """Another repository on the same table and storage, unless told otherwise."""
        given: dict[str, Any] = {
            "table": self.table_uri,
            "storage": self.storage_uri,
            "session": self.session,
        }
        self.opened.append(Repository(**{**given, **options}))
        return self.opened[-1]

    def table(self) -> Table:
        return Table(open_engine(self.table_uri, TABLE))

    def other_storage(self) -> str:
        """Another storage of the same kind."""
        address, mark, query = self.storage_uri.partition("?")
        return f"{address}-other{mark}{query}"

    def close(self) -> None:
        while self.opened:
            self.opened.pop().close()


Places = Callable[[], Backing]


@contextmanager
def embedded_and_folder(folder: Path) -> Iterator[Places]:
    def place() -> Backing:
        here = folder / uuid.uuid4().hex[:8]
        # Durability has its own tests, which take the default of writing through to the disk.
        table = f"dynamodb:///{here}/artifacts.ddb?synchronous=NORMAL"
        return Backing(table, f"file://{here}/files")

    yield place


@contextmanager
def dynoxide_and_s3(_: Path) -> Iterator[Places]:
    if find_dynoxide() is None:
        pytest.skip("dynoxide is not installed (tools/install_dynoxide.sh installs it with npm)")
    with dynoxide_server() as table_host, moto_server() as storage_host:
        endpoint = f"http://{storage_host}"
        # Each session reads the descriptions of the services anew, which takes half a second.
        session = boto3.session.Session("test", "test", region_name="us-east-1")
        session.client("s3", endpoint_url=endpoint).create_bucket(Bucket=BUCKET)

        def place() -> Backing:
            here = uuid.uuid4().hex[:8]
            return Backing(
                f"dynamodb://{table_host}/artifacts-{here}",
                f"s3://{BUCKET}/{here}?endpoint_url={endpoint}",
                session,
            )

        yield place


@pytest.fixture(
    scope="session", params=[embedded_and_folder, dynoxide_and_s3], ids=lambda made: made.__name__
)
def places(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Places]:
    with request.param(tmp_path_factory.mktemp("versioned")) as place:
        yield place


@pytest.fixture(scope="session")
def local_places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """The quick backing alone, for what does not depend on it."""
    with embedded_and_folder(tmp_path_factory.mktemp("versioned")) as place:
        yield place


@pytest.fixture
def backing(places: Places) -> Iterator[Backing]:
    made = places()
    yield made
    made.close()


@pytest.fixture
def local(local_places: Places) -> Iterator[Backing]:
    made = local_places()
    yield made
    made.close()


@pytest.fixture
def repo(backing: Backing) -> Repository:
    return backing.open()


@pytest.fixture
def clock() -> Clock:
    return Clock()
