"""An engine that counts its requests, and the units that its server reports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from mlflow_dynamodbstore.table.contract import (
    Engine,
    Got,
    LocalEngine,
    Outcome,
    Page,
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
from mlflow_dynamodbstore.table.heat import PARTITION_COUNTERS, table_name
from mlflow_dynamodbstore.table.protocol import (
    READS,
    Body,
    partitions_of,
    request_of,
    throttled_partitions,
    units_of,
    units_of_global_indexes,
)
from mlflow_dynamodbstore.table.request_checks import key_of
from mlflow_dynamodbstore.table.schema import Schema
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine


def counted(engine: Engine) -> Engine:
    """An engine whose requests are counted; it offers what the engine inside it offers."""
    observable, local = engine.capabilities.observable, engine.capabilities.local
    if observable is not None:
        observable.observer = partial(count_answer, table_name(engine.uri), engine.schema)
        return engine
    return engine if local is None else CountingEngine(engine, local)


def count_answer(table: str, schema: Schema, operation: str, answer: Body, request: Body) -> None:
    """Count a request to DynamoDB and the units that it reports."""
    COUNTERS.add(REQUESTS, request=operation)
    units, is_read = units_of(answer), operation in READS
    if units:
        COUNTERS.add(READ_UNITS if is_read else WRITE_UNITS, units)
        units -= units_of_global_indexes(answer)
    read, written = (units, 0.0) if is_read else (0.0, units)
    PARTITION_COUNTERS.add(
        table, partitions_of(schema, request), read_units=read, write_units=written
    )
    if throttled := throttled_partitions(schema, answer, request):
        PARTITION_COUNTERS.add(table, throttled, requests=0, throttles=1)


class CountingEngine(WrappedEngine):
    """Counts the requests to a local engine, by the names that DynamoDB has for them.

    Writes of one transaction of the file count as one request.
    """

    def __init__(self, inner: Engine, local: LocalEngine) -> None:
        super().__init__(inner)
        self._local = local
        self._name = table_name(inner.uri)
        self.capabilities = replace(inner.capabilities, local=self)

    @property
    def expiry_clock(self) -> Callable[[], float] | None:
        """The clock by which writes judge whether an item has expired."""
        return self._local.expiry_clock

    @expiry_clock.setter
    def expiry_clock(self, clock: Callable[[], float] | None) -> None:
        self._local.expiry_clock = clock

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        self._count("GetItem", [key.pk])
        return self.inner.get(key, consistent=consistent)

    def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> Got:
        self._count("BatchGetItem", [key.pk for key in keys])
        return self.inner.get_many(keys, consistent=consistent)

    def apply(self, write: Write) -> Item | None:
        self._count(request_of(write), self._partitions([write]))
        return self.inner.apply(write)

    def apply_many(self, writes: Sequence[Write]) -> list[Outcome]:
        self._count("BatchWriteItem", self._partitions(writes))
        return self.inner.apply_many(writes)

    def apply_in_order(self, writes: Sequence[Write], then: Sequence[Write]) -> list[Outcome]:
        """Do many writes, then others if all were applied."""
        self._count("BatchWriteItem", self._partitions([*writes, *then]))
        return self._local.apply_in_order(writes, then)

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        self._count("TransactWriteItems", self._partitions(writes))
        self.inner.transact(writes, token)

    def query(self, query: Query) -> Page:
        index = None if query.index is None else self.schema.by_name.get(query.index)
        is_local = index is None or index.is_local
        self._count("Query", [query.partition] if is_local else [])
        return self.inner.query(query)

    def scan(self, scan: Scan) -> Page:
        self._count("Scan", [])
        return self.inner.scan(scan)

    def _count(self, request: str, partitions: Sequence[str]) -> None:
        COUNTERS.add(REQUESTS, request=request)
        PARTITION_COUNTERS.add(self._name, partitions)

    def _partitions(self, writes: Sequence[TransactWrite]) -> list[str]:
        return [key_of(self.schema, write).pk for write in writes]
