"""Single writes and transactions. Many writes at once are in batch_writer.py.

A write is checked and turned into a row before the file is locked. The transaction does only what
depends on the stored item: its condition, its update, its limits.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlflow_dynamodbstore.table.conditions import Predicate, predicate
from mlflow_dynamodbstore.table.contract import (
    MAX_TRANSACTION_BYTES,
    Check,
    Delete,
    Outcome,
    Patch,
    Put,
    TransactWrite,
    Write,
)
from mlflow_dynamodbstore.table.embedded.codec import fingerprint
from mlflow_dynamodbstore.table.embedded.expiry import TOKEN_SECONDS, ExpiryNotes
from mlflow_dynamodbstore.table.embedded.file import File
from mlflow_dynamodbstore.table.embedded.index_lag import IndexLag
from mlflow_dynamodbstore.table.embedded.layout import (
    MOST_AT_ONCE,
    SIZE_COLUMN,
    Layout,
    Row,
    RowKey,
    expiry_of,
    expiry_size,
)
from mlflow_dynamodbstore.table.errors import (
    CollectionFull,
    ConditionFailed,
    InvalidRequest,
    ItemTooLarge,
    Refusal,
    RefusalCode,
    TableError,
    TransactionCancelled,
)
from mlflow_dynamodbstore.table.request_checks import (
    check_distinct,
    check_key,
    check_transaction,
    check_update,
)
from mlflow_dynamodbstore.table.sizes import size_with_copies
from mlflow_dynamodbstore.table.values import TTL, Item


@dataclass(slots=True)  # not frozen: that would triple the time to make one
class PreparedWrite:
    """A write that has been checked as far as possible without the stored item."""

    write: TransactWrite
    key: RowKey
    judge: Predicate | None
    row: Row | None = None  # of a Put


class Writer:
    """Writes to a file."""

    def __init__(
        self,
        file: File,
        layout: Layout,
        lag: IndexLag | None,
        collection_limit: int | None,
        clock: Callable[[], float],
    ) -> None:
        self._file = file
        self._layout = layout
        self._lag = lag
        self._collection_limit = collection_limit
        self._clock = clock
        self.expiry_clock: Callable[[], float] | None = None
        # Whether every write reads the stored item first.
        self.always_reads = lag is not None or collection_limit is not None
        self.notes = ExpiryNotes(self._now)
        file.on_rollback = self.notes.forget

    def _now(self) -> float:
        return (self.expiry_clock or self._clock)()

    # --- the ways to write ----------------------------------------------------------------------

    def apply(self, write: Write) -> Item | None:
        """Do one write."""
        prepared = self.prepare(write)
        row = prepared.row
        if self.is_blind(write) and (row is None or expiry_of(row) is None):
            statement = (
                self._layout.delete if row is None else self._layout.put_statement(row).of(1)
            )
            self._file.write_one(statement, row or prepared.key)
            return None
        return self._file.write(lambda connection: self._write_one(connection, prepared)[0])

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        """Do all writes or none, and only once for each token."""
        check_transaction(len(writes), token)
        prepared = self._prepare_all(writes)
        check_distinct([p.key for p in prepared])
        digest = fingerprint(writes)

        def work(connection: sqlite3.Connection) -> None:
            if not self._was_done(connection, token, digest):
                self._write_all(connection, prepared)

        self._file.write(work)

    def redate(
        self,
        pk: str,
        ranges: Sequence[tuple[str, str]],
        sort_keys: Sequence[str],
        ttl: int | None,
    ) -> None:
        """Change the expiry of all items in some ranges of a partition, and of some others."""
        size = expiry_size(ttl)

        def work(connection: sqlite3.Connection) -> None:
            for low, high in ranges:
                if ttl is not None:
                    self.notes.write_range(connection, pk, low, high, ttl)
                connection.execute(self._layout.redate_range, (ttl, size, pk, low, high))
            if ttl is not None:
                self.notes.write_all(connection, pk, sort_keys, ttl)
            for start in range(0, len(sort_keys), MOST_AT_ONCE):
                some = sort_keys[start : start + MOST_AT_ONCE]
                statement = self._layout.redate_some(len(some))
                connection.execute(statement, (ttl, size, pk, *some))

        self._file.write(work)

    # --- inside a transaction -------------------------------------------------------------------

    def _write_one(
        self, connection: sqlite3.Connection, prepared: PreparedWrite
    ) -> tuple[Item | None, int]:
        """Do one write. Returns the image it asks for, and the size of the new item.

        An error means that nothing was written.
        """
        write, key = prepared.write, prepared.key
        row = connection.execute(self._layout.get, key).fetchone()
        stands = None if row is None else self._layout.item(*key, *row)
        old = self.unexpired(stands)
        if prepared.judge is not None and not prepared.judge(old or {}):
            raise ConditionFailed(old=old)
        if isinstance(write, Check):
            return None, 0
        if isinstance(write, Delete):
            if old is not None:
                self._note_lag(connection, key, stands)
                connection.execute(self._layout.delete, key)
            return old if write.returns == "old" else None, 0
        new_row, new = self.updated(prepared, old)
        size: int = new_row[SIZE_COLUMN]  # type: ignore[assignment]  # this column is an int
        self._check_room(connection, key, old, new)
        self._note_lag(connection, key, stands)
        self.notes.write(connection, [new_row])
        self._layout.put_statement(new_row).run(connection, [new_row])
        return {"none": None, "old": old, "new": new}[write.returns], size

    def updated(self, prepared: PreparedWrite, old: Item | None) -> tuple[Row, Item]:
        """The row and the item after a put or patch."""
        write = prepared.write
        if isinstance(write, Put) and prepared.row is not None:
            return prepared.row, write.item
        if not isinstance(write, Patch):
            raise InvalidRequest(f"{type(write).__name__} leaves no item")
        schema = self._layout.schema
        base = old or dict(zip((schema.pk, schema.sk), prepared.key, strict=True))
        try:
            new = write.update.apply(base)
        except TypeError as error:
            raise InvalidRequest(str(error)) from error
        return self._layout.row(new, old), new

    def outcome(self, connection: sqlite3.Connection, prepared: PreparedWrite) -> Outcome:
        try:
            return Outcome("applied", self._write_one(connection, prepared)[0])
        except ConditionFailed as error:
            return Outcome("refused", error.old)
        except TableError as error:
            return Outcome("failed", error=error)

    def unexpired(self, item: Item | None) -> Item | None:
        """The stored item, or None if it has expired."""
        if item is not None and self.expiry_clock is not None:
            ttl = item.get(TTL)
            if ttl is not None and type(ttl) is int and ttl <= self.expiry_clock():
                return None
        return item

    def _write_all(self, connection: sqlite3.Connection, prepared: Sequence[PreparedWrite]) -> None:
        reasons: list[Refusal | None] = []
        total = 0
        for one in prepared:
            try:
                total += self._write_one(connection, one)[1]
                reasons.append(None)
            except ConditionFailed as error:
                reasons.append(Refusal(RefusalCode.CONDITION_FAILED, str(error), error.old))
            except (ItemTooLarge, CollectionFull) as error:
                reasons.append(Refusal(RefusalCode(type(error).__name__), str(error)))
        if any(reasons):
            raise TransactionCancelled(reasons)
        if total > MAX_TRANSACTION_BYTES:
            raise InvalidRequest(
                f"the items of a transaction have {total} bytes, more than {MAX_TRANSACTION_BYTES}"
            )

    def _was_done(self, connection: sqlite3.Connection, token: str, digest: bytes) -> bool:
        """Whether a transaction with this token was done before. If not, notes the token."""
        now = self._clock()
        row = connection.execute(
            "SELECT fingerprint FROM tokens WHERE token = ? AND at > ?",
            (token, now - TOKEN_SECONDS),
        ).fetchone()
        if row is None:
            connection.execute(
                "INSERT OR REPLACE INTO tokens VALUES (?, ?, ?)", (token, digest, now)
            )
            return False
        if row[0] != digest:
            raise InvalidRequest("the token was used for another transaction in the last minutes")
        return True

    def _check_room(
        self, connection: sqlite3.Connection, key: RowKey, old: Item | None, new: Item
    ) -> None:
        if self._collection_limit is None:
            return
        schema = self._layout.schema
        growth = size_with_copies(schema, new) - (
            0 if old is None else size_with_copies(schema, old)
        )
        (used,) = connection.execute(self._layout.partition_size, key[:1]).fetchone()
        if growth > 0 and used + growth > self._collection_limit:
            raise CollectionFull(
                f"the partition {key[0]!r} would pass its limit of {self._collection_limit} bytes"
            )

    def collection_share(self, pk: str) -> float:
        """How full a partition is, where there is a limit."""
        assert self._collection_limit is not None
        sql = self._layout.partition_size
        (used,) = self._file.read(lambda connection: connection.execute(sql, (pk,)).fetchone())
        return float(used) / self._collection_limit

    def _note_lag(self, connection: sqlite3.Connection, key: RowKey, before: Item | None) -> None:
        if self._lag is not None:
            self._lag.note(connection, key, before)

    # --- before a transaction -------------------------------------------------------------------

    def prepare(self, write: TransactWrite) -> PreparedWrite:
        judge = None if write.condition is None else predicate(write.condition)
        if isinstance(write, Put):
            if write.returns == "new":
                raise InvalidRequest("a put cannot return the new item, only the old one")
            row = self._layout.row(write.item)
            key: RowKey = row[:2]  # type: ignore[assignment]  # a row begins with its key
            return PreparedWrite(write, key, judge, row)
        check_key(*write.key)
        if isinstance(write, Patch):
            check_update(write.update, self._layout.schema)
        elif isinstance(write, Delete) and write.returns == "new":
            raise InvalidRequest("a delete cannot return a new item, only the old one")
        return PreparedWrite(write, write.key, judge)

    def _prepare_all(self, writes: Sequence[TransactWrite]) -> list[PreparedWrite]:
        """The writes of a transaction, which a put that is too large cancels."""
        prepared: list[PreparedWrite] = []
        reasons: list[Refusal | None] = [None] * len(writes)
        for n, write in enumerate(writes):
            try:
                prepared.append(self.prepare(write))
            except ItemTooLarge as error:
                reasons[n] = Refusal(RefusalCode.ITEM_TOO_LARGE, str(error))
        if any(reasons):
            raise TransactionCancelled(reasons)
        return prepared

    def is_blind(self, write: Write) -> bool:
        """Whether a write need not read the stored item."""
        return (
            write.condition is None
            and write.returns == "none"
            and type(write) is not Patch
            and not self.always_reads
        )
