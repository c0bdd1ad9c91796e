"""Stores whose requests are recorded, on every engine, for the tests that compare rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mlflow_dynamodbstore.table.contract import (
    Delete,
    Engine,
    Got,
    Outcome,
    Page,
    Patch,
    Put,
    Query,
    Scan,
    TransactWrite,
    Write,
)
from mlflow_dynamodbstore.table.request_checks import key_of
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.engines import dynoxide_server, find_dynoxide, moto_server
from tests.stores import ARTIFACTS
from tests.table.fakes import FakeTime, patient_retry

ENGINES = ("embedded", "dynoxide", "moto")


@dataclass(frozen=True)
class Request:
    """One request: its operation, the index it reads, and the keys or the range it names."""

    operation: str
    keys: tuple[Key, ...] = ()
    index: str | None = None
    partition: str = ""
    between: tuple[str, ...] = ()


class RecordingEngine(WrappedEngine):
    """Notes every request that the table makes."""

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner)
        self.requests: list[Request] = []

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        self.requests.append(Request("GetItem", (key,)))
        return super().get(key, consistent=consistent)

    def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> Got:
        self.requests.append(Request("BatchGetItem", tuple(keys)))
        return super().get_many(keys, consistent=consistent)

    def apply(self, write: Write) -> Item | None:
        self.requests.append(Request(_operation(write), (key_of(self.schema, write),)))
        return super().apply(write)

    def apply_many(self, writes: Sequence[Write]) -> list[Outcome]:
        for write in writes:
            self.requests.append(Request(_operation(write), (key_of(self.schema, write),)))
        return super().apply_many(writes)

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        keys = tuple(key_of(self.schema, write) for write in writes)
        self.requests.append(Request("TransactWriteItems", keys))
        super().transact(writes, token)

    def query(self, query: Query) -> Page:
        ends = () if query.where is None else tuple(map(str, query.where._values[1:]))
        self.requests.append(Request("Query", (), query.index, query.partition, ends))
        return super().query(query)

    def scan(self, scan: Scan) -> Page:
        self.requests.append(Request("Scan"))
        return super().scan(scan)


def _operation(write: Write) -> str:
    return {Put: "PutItem", Patch: "UpdateItem", Delete: "DeleteItem"}[type(write)]


@dataclass
class Home:
    """A tracking store, its clock, and the requests it makes."""

    store: DynamoDBTrackingStore
    engine: RecordingEngine
    time: FakeTime = field(default_factory=FakeTime)

    @property
    def table(self) -> Table:
        return self.store.table

    def item(self, pk: str, sk: str) -> Item | None:
        """A raw item, as the engine holds it."""
        return self.engine.inner.get(Key(pk, sk))

    def rows(self, pk: str, starting: str = "") -> dict[str, Item]:
        """The raw items of a partition whose sort keys begin with a text, by sort key."""
        items: list[Item] = []
        query = Query(pk)
        while True:
            page = self.engine.inner.query(query)
            items += page.items
            if page.cursor is None:
                break
            query = Query(pk, cursor=page.cursor)
        return {str(i["SK"]): i for i in items if str(i["SK"]).startswith(starting)}

    def everything(self) -> list[Item]:
        """Every raw item of the table."""
        items: list[Item] = []
        page = self.engine.inner.scan(Scan())
        items += page.items
        while page.cursor is not None:
            page = self.engine.inner.scan(Scan(cursor=page.cursor))
            items += page.items
        return items

    def needs_fetches(self) -> None:
        """Skip a test where a local index of keys does not fetch whole items, as on moto."""
        probe: Item = {"PK": "PROBE", "SK": "P", "lsi4sk": "P", "fetched": True}
        self.engine.inner.apply(Put(probe))
        (found,) = self.engine.inner.query(Query("PROBE", index="LSI4")).items
        self.engine.inner.apply(Delete(Key("PROBE", "P")))
        if "fetched" not in found:
            pytest.skip("this engine does not fetch whole items through a local index of keys")

    @contextmanager
    def recorded(self) -> Iterator[list[Request]]:
        """A list that holds, after the block, the requests made inside it."""
        made: list[Request] = []
        before = len(self.engine.requests)
        yield made
        made += self.engine.requests[before:]


@contextmanager
def address_of(engine: str) -> Iterator[str]:
    """Where an engine listens; empty for the embedded one."""
    if engine == "embedded":
        yield ""
        return
    if engine == "dynoxide" and find_dynoxide() is None:
        pytest.skip("dynoxide is not installed (tools/install_dynoxide.sh installs it with npm)")
    with dynoxide_server() if engine == "dynoxide" else moto_server() as address:
        yield address


@contextmanager
def home_on(address: str, folder: Path) -> Iterator[Home]:
    """A new table with a tracking store on it."""
    name = f"t{uuid.uuid4().hex[:10]}"
    uri = f"dynamodb://{address}/{name}" if address else f"dynamodb:///{folder}/{name}.ddb"
    time = FakeTime()
    engine = RecordingEngine(open_engine(uri))
    table = Table(engine, clock=time, retry=patient_retry(time))
    try:
        yield Home(DynamoDBTrackingStore(uri, ARTIFACTS, table=table), engine, time)
    finally:
        table.close()
