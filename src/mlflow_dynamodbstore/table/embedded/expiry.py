"""Remove expired items from the file.

Most items that expire do so long after they were written: the history of a metric after a year. An
index of all these times would double the time to log a metric. Instead a *note* says that items of
a group expire in a certain hour. A group is the items of a partition whose sort keys begin with the
same two words: a run, a trace. A note is written together with the first such item. When its hour
has come, the group is searched.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from mlflow_dynamodbstore.table.embedded.file import File
from mlflow_dynamodbstore.table.embedded.index_lag import IndexLag
from mlflow_dynamodbstore.table.embedded.layout import Layout, expiry_of
from mlflow_dynamodbstore.table.values import Key

# Small, so that no other write waits long.
BATCH = 100

# DynamoDB keeps an item with an older time: it takes the time for a mistake.
OLDEST = 5 * 365 * 86400

TOKEN_SECONDS = 600
HOUR = 3600
MOST_REMEMBERED = 10_000

_AFTER_ALL_TEXT = "\U0010ffff"
_IN_GROUP = "pk = ? AND sk >= ? AND sk < ?"
_EXPIRED = "ttl IS NOT NULL AND ttl <= ? AND ttl > ?"
_ADD = "INSERT OR IGNORE INTO expiries VALUES (?, ?, ?)"


class ExpiryNote(NamedTuple):
    """Some items of a group expire in this hour."""

    hour: int
    pk: str
    group: str

    @classmethod
    def of(cls, pk: str, sk: str, ttl: int) -> ExpiryNote:
        return cls(ttl // HOUR, pk, "#".join(sk.split("#", 2)[:2]))

    @property
    def range(self) -> tuple[str, str, str]:
        """The partition of the group, and the sort keys between which it lies."""
        return self.pk, self.group, self.group + _AFTER_ALL_TEXT


class ExpiryNotes:
    """Writes notes, and remembers those that exist.

    Only the holder of the write lock may use it. It must call ``forget`` after a rollback.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: set[ExpiryNote] = set()

    def write(self, connection: sqlite3.Connection, rows: Iterable[tuple[Any, ...]]) -> None:
        """Write notes for the rows that expire among those that the same transaction writes."""
        partition, below, hour = None, "", 0
        for row in rows:
            ttl = expiry_of(row)
            if ttl is None:
                continue
            pk, sk = row[:2]
            if pk == partition and sk.startswith(below) and ttl // HOUR == hour:
                continue  # the points of one call belong to one run and expire together
            note = ExpiryNote.of(pk, sk, ttl)
            self._write(connection, note)
            partition, below, hour = pk, f"{note.group}#", note.hour

    def write_range(
        self, connection: sqlite3.Connection, pk: str, low: str, high: str, ttl: int
    ) -> None:
        """Write notes for a range whose expiry the same transaction changes."""
        ends = ExpiryNote.of(pk, low, ttl), ExpiryNote.of(pk, high, ttl)
        if ends[0] == ends[1]:
            self._write(connection, ends[0])
            return
        inside = "SELECT sk FROM items WHERE pk = ? AND sk BETWEEN ? AND ?"
        found = connection.execute(inside, (pk, low, high))
        self.write_all(connection, pk, (sk for (sk,) in found), ttl)

    def write_all(
        self, connection: sqlite3.Connection, pk: str, sort_keys: Iterable[str], ttl: int
    ) -> None:
        """Write notes for items whose expiry the same transaction changes."""
        for note in {ExpiryNote.of(pk, sk, ttl) for sk in sort_keys}:
            self._write(connection, note)

    def _write(self, connection: sqlite3.Connection, note: ExpiryNote) -> None:
        # When its hour has begun, the note may have been removed already.
        if note not in self._known or note.hour <= self._clock() // HOUR:
            connection.execute(_ADD, note)
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known.add(note)

    def forget(self) -> None:
        """Forget everything: the last notes may have been rolled back."""
        self._known.clear()


def note_all(connection: sqlite3.Connection) -> None:
    """Write notes for all items that expire, in a file that has an index of them instead."""
    rows = connection.execute("SELECT pk, sk, ttl FROM items WHERE ttl IS NOT NULL")
    connection.executemany(_ADD, {ExpiryNote.of(*row) for row in rows})


def remove_expired(file: File, layout: Layout, lag: IndexLag | None, now: float) -> int:
    """Remove the items that have expired, a few at a time, and return how many."""
    ages = (int(now), int(now) - OLDEST)
    total = 0
    for note in _due(file, int(now) // HOUR):
        total += _remove_group(file, layout, lag, note, ages)
        if (note.hour + 1) * HOUR <= now:
            _remove_note(file, note, ages[1])
    return total


def _due(file: File, hour: int) -> Iterator[ExpiryNote]:
    """The notes whose hour has begun."""
    find = (
        "SELECT hour, pk, beginning FROM expiries WHERE hour <= ? "
        "AND (hour, pk, beginning) > (?, ?, ?) ORDER BY hour, pk, beginning LIMIT ?"
    )
    found = [ExpiryNote(-(2**63), "", "")]
    while found:
        found = [ExpiryNote(*row) for row in file.fetch(find, (hour, *found[-1], BATCH))]
        yield from found


def _remove_group(
    file: File, layout: Layout, lag: IndexLag | None, note: ExpiryNote, ages: tuple[int, int]
) -> int:
    find = f"SELECT pk, sk FROM items WHERE {_IN_GROUP} AND {_EXPIRED} LIMIT {BATCH}"  # noqa: S608
    values = (*note.range, *ages)
    total = 0
    while keys := file.fetch(find, values):
        removed = file.write(lambda connection: _remove(connection, layout, lag, keys, ages))
        total += removed
        if not removed:  # all were renewed meanwhile
            break
    return total


def _remove_note(file: File, note: ExpiryNote, oldest: int) -> None:
    """Remove a note, unless an item of its group and hour is still there."""
    left = f"SELECT 1 FROM items WHERE {_IN_GROUP} AND ttl >= ? AND ttl < ? AND ttl > ?"  # noqa: S608
    remove = (
        "DELETE FROM expiries WHERE (hour, pk, beginning) = (?, ?, ?) "  # noqa: S608 - constants
        f"AND NOT EXISTS ({left})"
    )
    hour = (note.hour * HOUR, (note.hour + 1) * HOUR)
    file.write_one(remove, (*note, *note.range, *hour, oldest))


def _remove(
    connection: sqlite3.Connection,
    layout: Layout,
    lag: IndexLag | None,
    keys: list[tuple[Any, ...]],
    ages: tuple[int, int],
) -> int:
    removed = 0
    for pk, sk in keys:
        row = connection.execute(f"{layout.get} AND {_EXPIRED}", (pk, sk, *ages)).fetchone()
        if row is None:
            continue  # it was renewed or removed meanwhile
        if lag is not None:
            lag.note(connection, Key(pk, sk), layout.item(pk, sk, *row))
        connection.execute(layout.delete, (pk, sk))
        removed += 1
    return removed


def remove_old_tokens(file: File, now: float) -> None:
    """Remove the tokens of transactions that can no longer be repeated."""
    old = (now - TOKEN_SECONDS,)
    find = "SELECT 1 FROM tokens WHERE at <= ? LIMIT 1"
    if file.fetch(find, old):
        file.write_one("DELETE FROM tokens WHERE at <= ?", old)
