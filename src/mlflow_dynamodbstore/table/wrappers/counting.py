"""An engine that counts its requests, and the units that its server reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlflow_dynamodbstore.table.contract import (
    Delete,
    Engine,
    Got,
    LocalEngine,
    Outcome,
    Page,
    Patch,
    Put,
    Query,
    Scan,
    TransactWrite,
    Write,
)
from mlflow_dynamodbstore.table.counters import (
    COUNTERS,
    READ_UNITS,
    REQUESTS,
    WRITE_UNITS,
)
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine

_READS = frozenset({"GetItem", "BatchGetItem", "Query", "Scan"})
_WRITES: Mapping[type, str] = {Put: "PutItem", Patch: "UpdateItem", Delete: "DeleteItem"}


def counted(engine: Engine) -> Engine:
    """An engine whose requests are counted; it offers what the engine inside it offers."""
    observable, local = engine.capabilities.observable, engine.capabilities.local
    if observable is not None:
        observable.observer = count_answer
        return engine
    return engine if local is None else CountingEngine(engine, local)


def count_answer(request: str, answer: Mapping[str, Any]) -> None:
    """Count a request to DynamoDB and the units that it reports."""
    COUNTERS.add(REQUESTS, request=request)
    reported = answer.get("ConsumedCapacity") or []
    tables: Iterable[Mapping[str, Any]] = [reported] if isinstance(reported, Mapping) else reported
    units = sum(table.get("CapacityUnits", 0.0) for table in tables)
    if units:
        COUNTERS.add(READ_UNITS if request in _READS else WRITE_UNITS, units)


class CountingEngine(WrappedEngine):
    """Counts the requests to a local engine, by the names that DynamoDB has for them.

    Writes of one transaction of the file count as one request.
    """

    def __init__(self, inner: Engine, local: LocalEngine) -> None:
        super().__init__(inner)
        self._local = local
        self.capabilities = replace(inner.capabilities, local=self)

    @property
    def expiry_clock(self) -> Callable[[], float] | None:
        """The clock by which writes judge whether an item has expired."""
        return self._local.expiry_clock

    @expiry_clock.setter
    def expiry_clock(self, clock: Callable[[], float] | None) -> None:
        self._local.expiry_clock = clock

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        COUNTERS.add(REQUESTS, request="GetItem")
        return self.inner.get(key, consistent=consistent)

    def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> Got:
        COUNTERS.add(REQUESTS, request="BatchGetItem")
        return self.inner.get_many(keys, consistent=consistent)

    def apply(self, write: Write) -> Item | None:
        COUNTERS.add(REQUESTS, request=_WRITES[type(write)])
        return self.inner.apply(write)

    def apply_many(self, writes: Sequence[Write]) -> list[Outcome]:
        COUNTERS.add(REQUESTS, request="BatchWriteItem")
        return self.inner.apply_many(writes)

    def apply_in_order(self, writes: Sequence[Write], then: Sequence[Write]) -> list[Outcome]:
        """Do many writes, then others if all were applied."""
        COUNTERS.add(REQUESTS, request="BatchWriteItem")
        return self._local.apply_in_order(writes, then)

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        COUNTERS.add(REQUESTS, request="TransactWriteItems")
        self.inner.transact(writes, token)

    def query(self, query: Query) -> Page:
        COUNTERS.add(REQUESTS, request="Query")
        return self.inner.query(query)

    def scan(self, scan: Scan) -> Page:
        COUNTERS.add(REQUESTS, request="Scan")
        return self.inner.scan(scan)
