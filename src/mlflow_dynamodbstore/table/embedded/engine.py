"""The embedded engine: a whole table in one SQLite file, with no server."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlencode

from mlflow_dynamodbstore.table.contract import (
    Capabilities,
    Got,
    Outcome,
    Page,
    Query,
    Scan,
    TransactWrite,
    Write,
)
from mlflow_dynamodbstore.table.embedded import file_setup
from mlflow_dynamodbstore.table.embedded.batch_writer import BatchWriter
from mlflow_dynamodbstore.table.embedded.expiry import remove_expired, remove_old_tokens
from mlflow_dynamodbstore.table.embedded.file import File, Synchronous
from mlflow_dynamodbstore.table.embedded.index_lag import IndexLag
from mlflow_dynamodbstore.table.embedded.inspection import Inspector
from mlflow_dynamodbstore.table.embedded.layout import Layout
from mlflow_dynamodbstore.table.embedded.reads import Reader
from mlflow_dynamodbstore.table.embedded.sweeper import sweeper
from mlflow_dynamodbstore.table.embedded.writes import Writer
from mlflow_dynamodbstore.table.request_checks import check_batch_get, check_key
from mlflow_dynamodbstore.table.schema import Schema
from mlflow_dynamodbstore.table.values import Item, Key


class EmbeddedEngine:
    """A table in a file, for any number of threads and processes of one machine.

    With ``synchronous="FULL"`` a write that returned survives a power cut. With ``"NORMAL"`` it
    survives a crash of the process, but a power cut may lose the last writes.

    Two options imitate DynamoDB in tests: with ``index_lag`` global indexes show a write so many
    seconds late, and with ``collection_limit`` a partition cannot grow beyond so many bytes. With
    ``spread``, every experiment has so many volumes from the start.
    """

    def __init__(
        self,
        path: str | Path,
        schema: Schema,
        *,
        synchronous: Synchronous = "FULL",
        index_lag: float = 0.0,
        collection_limit: int | None = None,
        spread: int = 1,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.schema = schema
        self.path = Path(path).absolute()
        self._query_string = _query_string(synchronous, index_lag, collection_limit, spread)
        self._clock = clock
        self._layout = Layout(schema)
        self._lag = IndexLag(index_lag, clock) if index_lag > 0 else None
        # Each new connection tells the sweeper, also in a forked child.
        self._file = File(self.path, synchronous, on_open=lambda: sweeper.watch(self))
        self._reader = Reader(self._file, self._layout, self._lag)
        self._writer = Writer(self._file, self._layout, self._lag, collection_limit, clock)
        self._batch_writer = BatchWriter(self._file, self._layout, self._writer)
        self.capabilities = Capabilities(
            local=self,
            redate=None if self._writer.always_reads else self.redate,
            inspectable=Inspector(self.path, self._layout),
            spread=spread,
            collection_share=None if collection_limit is None else self._writer.collection_share,
        )

    @property
    def uri(self) -> str:
        return f"dynamodb:///{self.path}{self._query_string}"

    @property
    def expiry_clock(self) -> Callable[[], float] | None:
        """The clock by which writes judge whether an item has expired; set by the table."""
        return self._writer.expiry_clock

    @expiry_clock.setter
    def expiry_clock(self, clock: Callable[[], float] | None) -> None:
        self._writer.expiry_clock = clock

    def prepare(self, *, create: bool) -> None:
        file_setup.prepare(self.path, self._layout, create=create)

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:  # noqa: ARG002 - always is
        check_key(*key)
        sql = self._layout.get
        row = self._file.read(lambda connection: connection.execute(sql, key).fetchone())
        return None if row is None else self._layout.item(*key, *row)

    def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> Got:  # noqa: ARG002
        """Up to 100 items, all from the same state of the table."""
        check_batch_get(keys)
        sql = self._layout.get

        def read(connection: sqlite3.Connection) -> dict[Key, Item]:
            found = {}
            for key in keys:
                row = connection.execute(sql, key).fetchone()
                if row is not None:
                    found[key] = self._layout.item(*key, *row)
            return found

        return Got(self._file.snapshot(read))

    def apply(self, write: Write) -> Item | None:
        return self._writer.apply(write)

    def apply_many(self, writes: Sequence[Write]) -> list[Outcome]:
        """Do many writes independently; they become durable together."""
        return self._batch_writer.apply_in_order(writes, ())

    def apply_in_order(self, writes: Sequence[Write], then: Sequence[Write]) -> list[Outcome]:
        """Do many writes, then others if all were applied; all become durable together."""
        return self._batch_writer.apply_in_order(writes, then)

    def redate(
        self,
        partition: str,
        ranges: Sequence[tuple[str, str]],
        sort_keys: Sequence[str],
        ttl: int | None,
    ) -> None:
        self._writer.redate(partition, ranges, sort_keys, ttl)

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        self._writer.transact(writes, token)

    def query(self, query: Query) -> Page:
        return self._reader.query(query)

    def scan(self, scan: Scan) -> Page:
        return self._reader.scan(scan)

    def sweep(self, now: float | None = None) -> int:
        """Remove the items that have expired at a time, by default now, and return how many."""
        moment = self._clock() if now is None else now
        remove_old_tokens(self._file, moment)
        if self._lag is not None:
            self._file.write(self._lag.forget)
        return remove_expired(self._file, self._layout, self._lag, moment)

    def close(self) -> None:
        """Close the file. It may be called twice."""
        sweeper.unwatch(self)
        self._file.close()


def _query_string(
    synchronous: str, index_lag: float, collection_limit: int | None, spread: int
) -> str:
    options: dict[str, object] = {}
    if synchronous != "FULL":
        options["synchronous"] = synchronous
    if index_lag:
        options["index_lag"] = index_lag
    if collection_limit is not None:
        options["collection_limit"] = collection_limit
    if spread > 1:
        options["spread"] = spread
    return f"?{urlencode(options)}" if options else ""
