"""The tables, statements and rows of the file: one table of items, with an index for each of ours.

An item is one row. Its key, its expiry and the keys of indexes have columns; ``body`` holds all
attributes but key and expiry. SQLite's BINARY collation orders text by its UTF-8 bytes, as DynamoDB
does. A checksum of key and body tells when one of them was damaged; rows of early files have none.
The rows are clustered by key (WITHOUT ROWID), so a range of a partition is read from neighbouring
pages, about twice as fast as through an index.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from zlib import crc32

from mlflow_dynamodbstore.table.contract import MAX_ITEM_BYTES, MAX_PK_BYTES, MAX_SK_BYTES
from mlflow_dynamodbstore.table.embedded.codec import pack, unpack
from mlflow_dynamodbstore.table.errors import ItemTooLarge, damaged_item
from mlflow_dynamodbstore.table.request_checks import check_key, check_size, check_text
from mlflow_dynamodbstore.table.schema import Index, Schema
from mlflow_dynamodbstore.table.sizes import item_size, number_size, size_with_copies, text_size
from mlflow_dynamodbstore.table.values import TTL, Item, Value

SIZED_COLUMNS = "size, pk, sk, ttl, body"
"""The columns that make the whole item and its size."""

APPLICATION_ID = 0x6D6C6464
FORMAT = 2

RowKey = tuple[str, str]
"""The partition key and sort key of a row; a :class:`Key` is one."""

Row = tuple[str | int | bytearray | None, ...]
"""The key of an item, the keys of indexes if it is in any, its expiry if it has one, size, checksum
and body.

The body is a bytearray: for bytes and None, Python's sqlite3 spends a microsecond on looking for an
adapter.
"""

_LASTING = ("pk", "sk", "size", "checksum", "body")
_EXPIRING = ("pk", "sk", "ttl", "size", "checksum", "body")
LASTING_COLUMNS, EXPIRING_COLUMNS = len(_LASTING), len(_EXPIRING)
TTL_COLUMN, SIZE_COLUMN, BODY_COLUMN = -4, -3, -1

# The notes of expiry.py.
EXPIRIES = (
    "CREATE TABLE IF NOT EXISTS expiries (hour INTEGER NOT NULL, pk TEXT NOT NULL, "
    "beginning TEXT NOT NULL, PRIMARY KEY (hour, pk, beginning)) WITHOUT ROWID"
)
_INT64 = 1 << 63


def is_expiry(ttl: Value) -> bool:
    """Whether the value of ``ttl`` is a time at which an item expires."""
    return type(ttl) is int and -_INT64 <= ttl < _INT64


def expiry_of(row: Row) -> int | None:
    """The time at which a row expires."""
    ttl: int | None = None if len(row) == LASTING_COLUMNS else row[TTL_COLUMN]  # type: ignore[assignment]
    return ttl


def expiry_size(ttl: int | None) -> int:
    """What an expiry adds to the size of an item."""
    return 0 if ttl is None else text_size(TTL) + number_size(ttl)


_SIZE_OF_EXPIRY = (
    f"{text_size(TTL)} + (length(trim(ttl, '-0')) + 1) / 2 + CASE WHEN ttl < 0 THEN 2 ELSE 1 END"
)
"""What :func:`expiry_size` counts, for a row that expires."""
_REDATE = (
    "UPDATE items SET ttl = ?, "  # noqa: S608 - constants
    f"size = size + ? - CASE WHEN ttl IS NULL THEN 0 ELSE {_SIZE_OF_EXPIRY} END"
)
"""Changes the expiry of rows, and with it their size, from which that of the old one is taken."""


MOST_AT_ONCE = 50
"""Rows of one statement: bounds their number, and is far below SQLite's limit of variables."""


class InsertStatement:
    """A statement that inserts any number of rows at once.

    SQLite prepares every index of the table for each statement that it runs, so rows in one
    statement take half the time of single rows.
    """

    def __init__(self, verb: str, columns: Sequence[str], ending: str = "") -> None:
        self._beginning = f"{verb} INTO items ({', '.join(columns)}) VALUES "
        self._marks = f"({', '.join('?' * len(columns))})"
        self._ending = ending
        self._statements: dict[int, str] = {}

    def run(self, connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
        """Insert some rows."""
        for start in range(0, len(rows), MOST_AT_ONCE):
            some = rows[start : start + MOST_AT_ONCE]
            connection.execute(self.of(len(some)), list(chain.from_iterable(some)))

    def of(self, count: int) -> str:
        """The text of the statement for so many rows."""
        known = self._statements.get(count)
        if known is None:
            marks = ", ".join([self._marks] * count)
            known = self._statements[count] = f"{self._beginning}{marks}{self._ending}"
        return known


class Layout:
    """The statements and rows of one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._pk, self._sk = schema.pk, schema.sk
        self._attributes = schema.key_attributes[2:]
        self._names = frozenset(self._attributes)
        self._limits = dict.fromkeys(self._attributes, MAX_SK_BYTES)
        for index in schema.indexes:
            if index.pk is not None and index.pk in self._limits:
                self._limits[index.pk] = MAX_PK_BYTES
        self.columns = {schema.pk: "pk", schema.sk: "sk"} | {
            name: f"k{n}" for n, name in enumerate(self._attributes)
        }
        names = [*self.columns.values(), "ttl", "size", "checksum", "body"]
        changes = ", ".join(f"{name} = excluded.{name}" for name in names[2:])
        # An upsert changes the row in place; REPLACE would first remove it from every index.
        self.put = InsertStatement(
            "INSERT", names, f" ON CONFLICT (pk, sk) DO UPDATE SET {changes}"
        )
        # Most items are in no index. A few columns take half the time of all columns.
        self.put_expiring = InsertStatement("INSERT OR REPLACE", _EXPIRING)
        self.put_lasting = InsertStatement("INSERT OR REPLACE", _LASTING)
        self.insert_lasting = InsertStatement("INSERT", _LASTING)
        # A statement that sets no indexed column touches no index.
        self.rewrite = "UPDATE items SET size = ?, checksum = ?, body = ? WHERE pk = ? AND sk = ?"
        self.swap = f"{self.rewrite} AND body = ? AND ttl IS NULL"
        self.get = "SELECT ttl, body FROM items WHERE pk = ? AND sk = ?"
        self.redate_range = f"{_REDATE} WHERE pk = ? AND sk BETWEEN ? AND ?"
        self.delete = "DELETE FROM items WHERE pk = ? AND sk = ?"
        # What a partition holds of what it can hold: its items and their entries in local indexes.
        self.partition_size = (
            f"SELECT total(size{self._entries_in_local_indexes()}) FROM items WHERE pk = ?"  # noqa: S608
        )

    def _entries_in_local_indexes(self) -> str:
        """An expression for the bytes that a row takes in local indexes, to be added."""
        schema, terms = self.schema, ""
        for index in schema.indexes:
            if not index.is_local:
                continue
            names = sum(map(text_size, (schema.pk, schema.sk, index.sk)))
            column = self.columns[index.sk]
            keys = " + ".join(f"length(CAST({one} AS BLOB))" for one in ("pk", "sk", column))
            entry = "size" if index.projection == "ALL" else f"{names} + {keys}"
            terms += f" + CASE WHEN {column} IS NULL THEN 0 ELSE {entry} END"
        return terms

    @staticmethod
    def get_some(count: int) -> str:
        """The statement that reads so many items of one partition."""
        marks = ", ".join("?" * count)
        return f"SELECT sk, ttl, body FROM items WHERE pk = ? AND sk IN ({marks})"  # noqa: S608

    @staticmethod
    def redate_some(count: int) -> str:
        """The statement that changes the expiry of so many items of one partition."""
        return f"{_REDATE} WHERE pk = ? AND sk IN ({', '.join('?' * count)})"

    def row(self, item: Item, old: Item | None = None) -> Row:
        """The row of an item, without the keys of indexes when it is in none.

        ``old`` is the stored item of a patch. Releases up to 0.2 did not count copies in indexes:
        what they stored may still be changed. Raises ``InvalidRequest`` and ``ItemTooLarge``.
        """
        size = item_size(item)
        rest = item.copy()
        pk, sk = rest.pop(self._pk, None), rest.pop(self._sk, None)
        check_key(pk, sk)
        try:
            check_size(self.schema, item, size)
        except ItemTooLarge:
            if size > MAX_ITEM_BYTES or old is None or not self._is_too_large(old):
                raise
        ttl = rest.get(TTL)
        if ttl is not None:
            ttl = rest.pop(TTL) if is_expiry(ttl) else None
        body = bytearray(pack(rest))
        checksum = crc32(body, crc32(f"{pk}{sk}".encode()))
        if not self._names.isdisjoint(rest):
            return (pk, sk, *self._index_keys(rest), ttl, size, checksum, body)
        if ttl is None:
            return (pk, sk, size, checksum, body)
        return (pk, sk, ttl, size, checksum, body)

    def _is_too_large(self, item: Item) -> bool:
        return size_with_copies(self.schema, item) > MAX_ITEM_BYTES

    def item(self, pk: str, sk: str, ttl: int | None, body: bytes) -> Item:
        """The item of a row. Raises ``Damaged`` for a body that cannot be read."""
        try:
            item = unpack(body)
            item[self._pk], item[self._sk] = pk, sk
        except (ValueError, TypeError) as error:
            raise damaged_item(pk, sk) from error
        if ttl is not None:
            item[TTL] = ttl
        elif TTL in item and is_expiry(item[TTL]):
            del item[TTL]  # early files of 0.1.0 have it in the body too
        return item

    def sized_item(self, row: tuple[int, str, str, int | None, bytes]) -> tuple[int, Item]:
        """The size and the item of a row, read as ``SIZED_COLUMNS``."""
        size, pk, sk, ttl, body = row
        return size, self.item(pk, sk, ttl, body)

    def put_statement(self, row: Row) -> InsertStatement:
        """The statement that writes a row."""
        if len(row) == LASTING_COLUMNS:
            return self.put_lasting
        return self.put_expiring if len(row) == EXPIRING_COLUMNS else self.put

    def rewrite_values(self, row: Row, old: Item) -> Row | None:
        """The values of ``rewrite``; None if the old or the new item is in an index or expires."""
        if len(row) > LASTING_COLUMNS or TTL in old or not self._names.isdisjoint(old):
            return None
        pk, sk, size, checksum, body = row
        return size, checksum, body, pk, sk

    def _index_keys(self, item: Item) -> Row:
        for name in self._names & item.keys():
            check_text(item[name], f"index key {name!r}", self._limits[name])
        return tuple(item.get(name) for name in self._attributes)

    def index_name(self, index: Index) -> str:
        """The name of the SQLite index for one of ours."""
        return f"index_{self.schema.indexes.index(index)}"

    @cached_property
    def description(self) -> str:
        """The key and the indexes as text, which a file keeps."""
        return json.dumps(
            [[self.schema.pk, self.schema.sk]]
            + [[i.name, i.pk or "", i.sk, i.projection] for i in self.schema.indexes]
        )

    def difference(self, other: str) -> str:
        """The first difference between a file's description and ours, in words."""
        theirs, ours = json.loads(other), json.loads(self.description)
        for there, here in zip(theirs, ours, strict=False):
            if there != here:
                return f"it has {there} where {here} is expected"
        return f"it has {len(theirs) - 1} indexes where {len(ours) - 1} are expected"

    def definition(self) -> Iterator[str]:
        """The statements that create the tables and indexes of a file."""
        keys = "".join(f", k{n} TEXT" for n in range(len(self._attributes)))
        yield (
            f"CREATE TABLE items (pk TEXT NOT NULL, sk TEXT NOT NULL{keys}, ttl INTEGER, "
            "size INTEGER NOT NULL, checksum INTEGER, body BLOB NOT NULL, "
            "PRIMARY KEY (pk, sk)) WITHOUT ROWID"
        )
        for index in self.schema.indexes:
            yield self._index_definition(index)
        yield EXPIRIES
        # The images that lagging global indexes still show; see index_lag.py.
        yield "CREATE TABLE pending (pk TEXT, sk TEXT, due REAL NOT NULL, before BLOB)"
        yield "CREATE INDEX pending_due ON pending (due)"
        # The tokens of the transactions of the last minutes.
        yield (
            "CREATE TABLE tokens (token TEXT PRIMARY KEY, fingerprint BLOB NOT NULL, "
            "at REAL NOT NULL) WITHOUT ROWID"
        )
        yield "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"

    def _index_definition(self, index: Index) -> str:
        sk = self.columns[index.sk]
        if index.pk is None:
            columns, present = f"pk, {sk}, sk", f"{sk} IS NOT NULL"
        else:
            pk = self.columns[index.pk]
            columns, present = f"{pk}, {sk}, pk, sk", f"{pk} IS NOT NULL AND {sk} IS NOT NULL"
        return f"CREATE INDEX {self.index_name(index)} ON items ({columns}) WHERE {present}"
