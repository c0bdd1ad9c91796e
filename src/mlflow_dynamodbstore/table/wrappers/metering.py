"""Requests and capacity units, counted on either engine, so that a test can assert on cost.

Where the server tells what each request consumed, its figures count. Everywhere else the same
figures are computed from DynamoDB's rules, and each call counts as the requests that the DynamoDB
engine would send.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from mlflow_dynamodbstore.table.contract import (
    MAX_BATCH_WRITE,
    Check,
    Delete,
    Engine,
    Got,
    Observable,
    Outcome,
    Page,
    Patch,
    Put,
    Query,
    Scan,
    TransactWrite,
    Write,
)
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.protocol import READS, consumed, request_of
from mlflow_dynamodbstore.table.request_checks import key_of
from mlflow_dynamodbstore.table.schema import Schema
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.table.wrappers import costs
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine


@dataclass
class Usage:
    """Requests by operation, and the units they consumed."""

    requests: Counter[str] = field(default_factory=Counter)
    read_units: float = 0.0
    write_units: float = 0.0

    @property
    def total_requests(self) -> int:
        return sum(self.requests.values())

    def __str__(self) -> str:
        by_operation = ", ".join(f"{name} {n}" for name, n in sorted(self.requests.items()) if n)
        return (
            f"{self.total_requests} requests ({by_operation or 'none'}), "
            f"{self.read_units:g} read units, {self.write_units:g} write units"
        )


class Meter:
    """A running total that many threads may add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total = Usage()

    @property
    def requests(self) -> Counter[str]:
        return self.total().requests

    @property
    def read_units(self) -> float:
        return self._total.read_units

    @property
    def write_units(self) -> float:
        return self._total.write_units

    def total(self) -> Usage:
        """A copy of everything counted since the last reset."""
        with self._lock:
            return replace(self._total, requests=Counter(self._total.requests))

    def reset(self) -> None:
        with self._lock:
            self._total = Usage()

    def add(self, operation: str, *, read: float = 0.0, write: float = 0.0) -> None:
        """Count one request and what it consumed."""
        with self._lock:
            self._total.requests[operation] += 1
            self._total.read_units += read
            self._total.write_units += write

    def add_units(self, *, read: float = 0.0, write: float = 0.0) -> None:
        """Count units of a request that is itself counted elsewhere."""
        with self._lock:
            self._total.read_units += read
            self._total.write_units += write

    @contextmanager
    def measure(self) -> Iterator[Usage]:
        """A usage that holds, after the block, what was consumed inside it."""
        before, inside = self.total(), Usage()
        try:
            yield inside
        finally:
            after = self.total()
            inside.requests = after.requests - before.requests
            inside.read_units = after.read_units - before.read_units
            inside.write_units = after.write_units - before.write_units

    def __str__(self) -> str:
        return str(self.total())


class MeteredEngine(WrappedEngine):
    """Counts what every call costs, in ``meter``."""

    def __init__(self, inner: Engine, meter: Meter | None = None) -> None:
        self.meter = meter or Meter()
        if inner.capabilities.observable is None:
            super().__init__(_Computed(inner, self.meter))
        else:
            super().__init__(_Reported(inner, inner.capabilities.observable, self.meter))


class _LastQuery(threading.local):
    """A thread's last query: the units of the table itself, and how many items were left out."""

    fetched = 0.0
    unseen = 0


class _Reported(WrappedEngine):
    """Takes the server's own figures.

    The error of a refused write has no figure, so it is computed from the old item. Some endpoints
    report too little for what a local index fetches from the table: they round the sum where AWS
    rounds each item. The difference is added.
    """

    def __init__(self, inner: Engine, observable: Observable, meter: Meter) -> None:
        super().__init__(inner)
        self._meter = meter
        self._last = _LastQuery()
        observable.observer = self._observe

    def _observe(
        self, operation: str, response: Mapping[str, Any], _request: Mapping[str, Any]
    ) -> None:
        tables = consumed(response)
        read = write = 0.0
        for table in tables:
            if "ReadCapacityUnits" in table or "WriteCapacityUnits" in table:
                read += table.get("ReadCapacityUnits", 0.0)
                write += table.get("WriteCapacityUnits", 0.0)
            elif operation in READS:
                read += table["CapacityUnits"]
            else:
                write += table["CapacityUnits"]
        if operation == "Query" and tables:
            self._last.fetched = tables[0].get("Table", {}).get("CapacityUnits", 0.0)
            self._last.unseen = response.get("ScannedCount", 0) - response.get("Count", 0)
        self._meter.add(operation, read=read, write=write)

    def query(self, query: Query) -> Page:
        page = self.inner.query(query)
        owed = costs.fetch_units(self.schema, query, page.items, self._last.unseen)
        if owed:
            self._meter.add_units(read=max(0.0, owed - self._last.fetched))
        return page

    def apply(self, write: Write) -> Item | None:
        try:
            return self.inner.apply(write)
        except ConditionFailed as refused:
            self._meter.add_units(write=costs.refused_units(refused.old))
            raise

    def apply_many(self, writes: Sequence[Write]) -> list[Outcome]:
        outcomes = self.inner.apply_many(writes)
        refused = [outcome.image for outcome in outcomes if outcome.status == "refused"]
        self._meter.add_units(write=sum(map(costs.refused_units, refused)))
        return outcomes

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        try:
            self.inner.transact(writes, token)
        except TransactionCancelled as cancelled:
            self._meter.add_units(write=cancelled_units(cancelled))
            raise


class _Computed(WrappedEngine):
    """Computes the figures from DynamoDB's rules.

    It reads the old image before each write, so with concurrent writers of one item a figure may
    be slightly off. A transaction sent again with its token counts as a new one.
    """

    def __init__(self, inner: Engine, meter: Meter) -> None:
        super().__init__(inner)
        self._meter = meter

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        item = self.inner.get(key, consistent=consistent)
        self._meter.add("GetItem", read=costs.get_units([item], consistent=consistent))
        return item

    def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> Got:
        got = self.inner.get_many(keys, consistent=consistent)
        looked_at = [got.items.get(key) for key in keys if key not in got.unprocessed]
        units = costs.get_units(looked_at, consistent=consistent)
        self._meter.add("BatchGetItem", read=units)
        return got

    def query(self, query: Query) -> Page:
        page = self.inner.query(query)
        whole = query.filter is None and not query.keys_only
        # The same page without filter and projection holds what was read.
        read = page if whole else self.inner.query(replace(query, filter=None, keys_only=False))
        self._meter.add("Query", read=costs.query_units(self.schema, query, read.items))
        return page

    def scan(self, scan: Scan) -> Page:
        page = self.inner.scan(scan)
        read = page if scan.filter is None else self.inner.scan(replace(scan, filter=None))
        self._meter.add("Scan", read=costs.page_units(read.items, consistent=True))
        return page

    def apply(self, write: Write) -> Item | None:
        old = self.inner.get(key_of(self.schema, write))
        try:
            image = self.inner.apply(write)
        except ConditionFailed as refused:
            self._meter.add(request_of(write), write=costs.refused_units(refused.old))
            raise
        units = costs.write_units(self.schema, old, after(self.schema, write, old))
        self._meter.add(request_of(write), write=units)
        return image

    def apply_many(self, writes: Sequence[Write]) -> list[Outcome]:
        olds = [self.inner.get(key_of(self.schema, write)) for write in writes]
        outcomes = self.inner.apply_many(writes)
        units = list(map(self._outcome_units, writes, olds, outcomes))
        for operation, members in requests_of(writes):
            self._meter.add(operation, write=sum(units[n] for n in members))
        return outcomes

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        olds = [self.inner.get(key_of(self.schema, write)) for write in writes]
        try:
            self.inner.transact(writes, token)
        except TransactionCancelled as cancelled:
            self._meter.add("TransactWriteItems", write=cancelled_units(cancelled))
            raise
        units = sum(map(self._transact_units, writes, olds))
        self._meter.add("TransactWriteItems", write=units)

    def _outcome_units(self, write: Write, old: Item | None, outcome: Outcome) -> int:
        if outcome.status == "applied":
            return costs.write_units(self.schema, old, after(self.schema, write, old))
        return costs.refused_units(outcome.image) if outcome.status == "refused" else 0

    def _transact_units(self, write: TransactWrite, old: Item | None) -> int:
        if isinstance(write, Check):
            return costs.refused_units(old, transactional=True)
        new = after(self.schema, write, old)
        return costs.write_units(self.schema, old, new, transactional=True)


def after(schema: Schema, write: Write, old: Item | None) -> Item | None:
    """The item after a write."""
    if isinstance(write, Put):
        return write.item
    if isinstance(write, Delete):
        return None
    return write.update.apply(old or {schema.pk: write.key.pk, schema.sk: write.key.sk})


def cancelled_units(cancelled: TransactionCancelled) -> int:
    """Units of a transaction that wrote nothing, as far as its reasons carry the items."""
    olds = [None if reason is None else reason.old for reason in cancelled.reasons]
    return sum(costs.refused_units(old, transactional=True) for old in olds)


def requests_of(writes: Sequence[Write]) -> Iterable[tuple[str, list[int]]]:
    """The requests of a bulk write, each with the positions of its writes.

    Puts and deletes without a condition go in batches of 25. A patch, a write with a condition and
    one that returns an image go alone.
    """
    plain: list[int] = []
    for n, write in enumerate(writes):
        if isinstance(write, Patch) or write.condition is not None or write.returns != "none":
            yield request_of(write), [n]
        else:
            plain.append(n)
    for start in range(0, len(plain), MAX_BATCH_WRITE):
        yield "BatchWriteItem", plain[start : start + MAX_BATCH_WRITE]
