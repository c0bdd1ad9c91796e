"""A tracking store and a registry on each engine, with a log of every request they make.

A test module imports the fixtures that it wants.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.table.contract import (
    Engine,
    Got,
    Outcome,
    Page,
    Query,
    Scan,
    TransactWrite,
    Write,
)
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.engines import dynoxide_server, find_dynoxide, moto_server
from tests.stores import everything_in

ENGINES = ["embedded", "dynoxide", "moto"]


@dataclass(frozen=True)
class Request:
    """One request: ``GetItem``, ``BatchGetItem``, ``Query``, ``Scan``, ``TransactWriteItems``
    or ``Write``; the partition and index that a query asks; how many items it wrote or brought.
    """

    operation: str
    partition: str = ""
    index: str | None = None
    items: int = 0


class LoggedEngine(WrappedEngine):
    """Notes every request."""

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner)
        self.log: list[Request] = []

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        found = super().get(key, consistent=consistent)
        self.log.append(Request("GetItem", key.pk, items=int(found is not None)))
        return found

    def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> Got:
        got = super().get_many(keys, consistent=consistent)
        self.log.append(Request("BatchGetItem", items=len(got.items)))
        return got

    def apply(self, write: Write) -> Item | None:
        self.log.append(Request("Write", items=1))
        return super().apply(write)

    def apply_many(self, writes: Sequence[Write]) -> list[Outcome]:
        self.log.append(Request("Write", items=len(writes)))
        return super().apply_many(writes)

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        self.log.append(Request("TransactWriteItems", items=len(writes)))
        super().transact(writes, token)

    def query(self, query: Query) -> Page:
        page = super().query(query)
        self.log.append(Request("Query", query.partition, query.index, len(page.items)))
        return page

    def scan(self, scan: Scan) -> Page:
        page = super().scan(scan)
        self.log.append(Request("Scan", items=len(page.items)))
        return page


class Requests(list[Request]):
    """The requests made in a block."""

    def queries(self, index: str | None) -> list[Request]:
        """The queries of an index, or of the table itself."""
        return [one for one in self if one.operation == "Query" and one.index == index]

    @property
    def items_read(self) -> int:
        """How many items and index entries all reads brought."""
        reads = ("GetItem", "BatchGetItem", "Query", "Scan")
        return sum(one.items for one in self if one.operation in reads)


class Logged:
    """A table, and the stores on it."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.engine = LoggedEngine(open_engine(uri))
        self.engine.prepare(create=True)
        self.table = Table(self.engine)
        self.tracking = DynamoDBTrackingStore(uri, "s3://bucket/root", table=self.table)
        self.registry = DynamoDBRegistryStore(uri, table=self.table)

    @contextmanager
    def requests(self) -> Iterator[Requests]:
        """The requests made inside the block, complete after it."""
        made, first = Requests(), len(self.engine.log)
        yield made
        made += self.engine.log[first:]

    def items(self, pk: str = "", sk: str = "") -> list[Item]:
        """The raw items whose keys match two regular expressions."""
        return [
            item
            for item in everything_in(self.table)
            if re.search(pk, item["PK"]) and re.search(sk, item["SK"])
        ]

    def sort_keys(self, pk: str = "", sk: str = "") -> list[str]:
        return sorted(str(item["SK"]) for item in self.items(pk, sk))

    def in_index(self, index: str, partition: str, beginning: str = "") -> list[Item]:
        """The entries of an index in a partition whose sort keys begin with a text."""
        name = self.table.schema.by_name[index].sk
        found = self.table.items(Query(partition, index=index))
        return [item for item in found if str(item[name]).startswith(beginning)]


@contextmanager
def logged_on(engine: str, folder: Path) -> Iterator[Logged]:
    if engine == "embedded":
        yield Logged(f"dynamodb:///{folder}/mlflow.ddb?synchronous=NORMAL")
        return
    if engine == "dynoxide" and find_dynoxide() is None:
        pytest.skip("dynoxide is not installed (tools/install_dynoxide.sh installs it with npm)")
    with dynoxide_server() if engine == "dynoxide" else moto_server() as host:
        # All of moto in a process has the same tables: this one is nobody else's.
        yield Logged(f"dynamodb://{host}/t{uuid.uuid4().hex[:10]}")


@pytest.fixture(scope="module", params=ENGINES)
def logged(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Logged]:
    """One table for the tests of a module, which make experiments and names of their own."""
    with pytest.MonkeyPatch.context() as environment:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.setenv(name, "test")
        with logged_on(request.param, tmp_path_factory.mktemp("specification")) as made:
            yield made
            made.table.close()
