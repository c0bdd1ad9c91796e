"""Check the file of a table, and read everything in it that can still be read.

The rows are read in the order in which they lie in the file, and each is judged by its checksum. A
page that SQLite cannot read ends such a walk. Then the rows behind it are read from the end of the
table backwards, and those between two such pages from the keys that indexes know.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from mlflow_dynamodbstore.table.contract import Damage, OnDamage
from mlflow_dynamodbstore.table.embedded.file import connect
from mlflow_dynamodbstore.table.embedded.layout import Layout
from mlflow_dynamodbstore.table.embedded.sqlite_errors import is_busy, translate
from mlflow_dynamodbstore.table.errors import Damaged
from mlflow_dynamodbstore.table.values import Item, Key

MOST_COMPLAINTS = 20

RawKey = tuple[bytes, bytes]
"""The key of a row as bytes, which need not be UTF-8."""

_BEFORE = "WHERE (pk, sk) < (?, ?) ORDER BY pk DESC, sk DESC"
_FROM = "WHERE (pk, sk) >= (?, ?) ORDER BY pk, sk"
_KEY = "CAST(pk AS BLOB), CAST(sk AS BLOB)"


class _Row(NamedTuple):
    key: RawKey
    ttl: Any
    checksum: Any
    body: Any
    index_keys: tuple[Any, ...]


class Inspector:
    """Reads a file without trusting it."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self._path = path
        self._layout = layout

    def check_file(self) -> list[str]:
        """What is wrong with pages and indexes, in SQLite's words; nothing in a sound file."""
        with closing(self._connect()) as connection:
            try:
                found = connection.execute(f"PRAGMA integrity_check({MOST_COMPLAINTS})").fetchall()
            except sqlite3.Error as error:
                return [str(error)]
        complaints = [line for (text,) in found for line in str(text).splitlines()]
        return [line for line in complaints if line != "ok" and not line.startswith("***")]

    def readable_items(self, on_damage: OnDamage) -> Iterator[Item]:
        """All items that can be read, in any order; what is damaged is reported."""
        with closing(self._connect("BEGIN")) as connection:
            yield from _Rescue(connection, self._path, self._layout, on_damage).items()

    def _connect(self, *statements: str) -> sqlite3.Connection:
        try:
            return connect(self._path, "rw", statements)
        except sqlite3.Error as error:
            raise translate(error, self._path) from error


class _Rescue:
    """One reading of a whole file, on a connection that sees one state of it."""

    def __init__(
        self, connection: sqlite3.Connection, path: Path, layout: Layout, on_damage: OnDamage
    ) -> None:
        self._connection = connection
        self._path = path
        self._layout = layout
        self._report = on_damage
        self._attributes = list(layout.columns)[2:]
        keys = "".join(f", CAST({layout.columns[name]} AS BLOB)" for name in self._attributes)
        self._select = f"SELECT {_KEY}, ttl, checksum, body{keys} FROM items "  # noqa: S608
        self._reached: RawKey | None = None  # the last row of a walk with an intact key
        self._failure: sqlite3.Error | None = None  # what ended a walk too early

    def items(self) -> Iterator[Item]:
        """Everything that can be read."""
        yield from self._walk("ORDER BY pk, sk")
        if self._failure is None:
            return
        self._report(Damage(None, f"a page cannot be read ({self._failure})"))
        low = self._reached
        yield from self._walk("ORDER BY pk DESC, sk DESC", until=low)
        yield from self._between(low, self._reached)

    def _between(self, low: RawKey | None, high: RawKey | None) -> Iterator[Item]:
        """The rows between two pages that cannot be read, as far as an index knows their keys."""
        known = self._keys_in_indexes()
        inside = sorted(
            key for key in known if (low is None or key > low) and (high is None or key < high)
        )
        covered = low
        for key in inside:
            if covered is not None and key <= covered:
                continue
            # The rows before it on its page, then it and the rows after it.
            for item in self._walk(_BEFORE, _shown(key), covered):
                known.discard(self._raw_key(item))
                yield item
            covered = key
            for item in self._walk(_FROM, _shown(key), high):
                covered = max(covered, self._raw_key(item))
                known.discard(self._raw_key(item))
                yield item
        for key in inside:
            if key in known:
                self._report(Damage(_shown(key), "the page it is on cannot be read"))

    def _keys_in_indexes(self) -> set[RawKey]:
        """The keys of all items that are in an index."""
        found: set[RawKey] = set()
        for index in self._layout.schema.indexes:
            sk = self._layout.columns[index.sk]
            pk = "pk" if index.pk is None else self._layout.columns[index.pk]
            name = self._layout.index_name(index)
            present = f"{pk} IS NOT NULL AND {sk} IS NOT NULL"
            sql = f"SELECT {_KEY} FROM items INDEXED BY {name} WHERE {present}"  # noqa: S608
            found.update(self._rows(sql))
            self._failure = None
        return found

    def _walk(
        self, ending: str, start: Sequence[str] = (), until: RawKey | None = None
    ) -> Iterator[Item]:
        """The readable items in the order of a statement, up to a key that was read before."""
        descending = "DESC" in ending
        self._reached, self._failure = None, None
        for row in map(_row, self._rows(self._select + ending, start)):
            if row.key == until:
                return
            before: RawKey | None = self._reached
            if before is not None and (row.key >= before if descending else row.key <= before):
                self._report(Damage(_shown(row.key), "it is in the wrong place"))
                continue
            item = self._item(row)
            if item is not None:
                self._reached = row.key
                yield item

    def _rows(self, sql: str, values: Sequence[str] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a statement, up to the first that SQLite cannot read."""
        try:
            yield from self._connection.execute(sql, values)
        except sqlite3.DatabaseError as error:
            if is_busy(error) or not isinstance(translate(error, self._path), Damaged):
                raise translate(error, self._path) from error
            self._failure = error

    def _item(self, row: _Row) -> Item | None:
        """The item of a row; None for a damaged one, which is reported."""
        try:
            pk, sk = row.key[0].decode(), row.key[1].decode()
            damaged = row.checksum is not None and row.checksum != _checksum(row)
            item = None if damaged else self._layout.item(pk, sk, row.ttl, row.body)
        except (UnicodeDecodeError, TypeError, Damaged):
            item = None
        if item is None:
            self._report(Damage(_shown(row.key), "its content is damaged"))
            return None
        expected = tuple(_encoded(item.get(name)) for name in self._attributes)
        if expected != row.index_keys:
            text = "its keys in indexes are damaged, the item itself is not"
            self._report(Damage(_shown(row.key), text, is_lost=False))
        return item

    def _raw_key(self, item: Item) -> RawKey:
        pk, sk = self._layout.schema.key_of(item)
        return pk.encode(), sk.encode()


def _row(columns: tuple[Any, ...]) -> _Row:
    pk, sk, ttl, checksum, body, *index_keys = columns
    return _Row((pk, sk), ttl, checksum, body, tuple(index_keys))


def _checksum(row: _Row) -> int:
    return crc32(row.body, crc32(b"".join(row.key)))


def _encoded(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else None


def _shown(key: RawKey) -> Key:
    """A key as text; bytes that are not text are replaced."""
    return Key(*(part.decode(errors="replace") for part in key))
