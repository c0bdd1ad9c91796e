"""Many writes at once: what they do to the file, and what need not be read first.

A write with a condition is judged by the item it meets. A training loop writes the same few items
again and again, and to read back what this process itself wrote a moment ago takes a tenth of the
time that logging takes. So the last small items written are *remembered*: a write is judged by
what is remembered, and its statement changes the row only if that still stands. In the same way a
write that insists on absence is simply inserted. When a guess was wrong, because another process
came between, the transaction is undone and begun again with everything read, and for some time
nothing is guessed.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from typing import Any

from mlflow_dynamodbstore.table.embedded.expiry import ExpiryNotes
from mlflow_dynamodbstore.table.embedded.layout import (
    BODY_COLUMN,
    LASTING_COLUMNS,
    InsertStatement,
    Layout,
    Row,
    RowKey,
)
from mlflow_dynamodbstore.table.values import Item

MOST_REMEMBERED = 10_000
LARGEST_REMEMBERED = 1_000  # bytes
CAUTIOUS_BATCHES = 50


class WrongGuess(Exception):
    """An item is not what it was taken to be."""


class RecentPuts:
    """The last small items that a process put under a condition.

    Only whoever holds the lock of writers may use it, and must say when a transaction came to
    nothing.
    """

    def __init__(self) -> None:
        # Items in no index and without expiry, each with the body of its row.
        self.known: dict[RowKey, tuple[Item, bytearray]] = {}
        self._caution = 0

    def is_trusted(self) -> bool:
        """Whether the next batch should guess; not soon after a guess was wrong."""
        if self._caution:
            self._caution -= 1
        return not self._caution

    def was_wrong(self) -> None:
        """Others write what this process writes: read for a while instead of guessing."""
        self._caution = CAUTIOUS_BATCHES

    def note(self, key: RowKey, row: Row, item: Item) -> None:
        """Remember what a transaction puts, where that is worth while."""
        body: Any = row[BODY_COLUMN]
        if len(row) > LASTING_COLUMNS or len(body) > LARGEST_REMEMBERED:
            return
        if len(self.known) >= MOST_REMEMBERED:
            self.known.clear()
        self.known[key] = (item.copy(), body)  # the caller may go on to change its own

    def forget(self) -> None:
        """Forget everything: what was written last may not be there."""
        self.known.clear()


class RowChanges:
    """What many writes do to the file.

    Statements of one kind go to SQLite together, which halves their cost.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.blind_puts: list[Row] = []
        self.blind_deletes: list[RowKey] = []
        self.reset()

    def reset(self) -> None:
        """Begin a transaction: what an earlier one that was undone found out is forgotten."""
        self.puts = self.blind_puts.copy()  # whatever stands there
        self.deletes = self.blind_deletes.copy()
        self.inserts: list[Row] = []  # lasting ones, where nothing is taken to stand
        self.rewrites: list[Row] = []  # of items that were read
        self.swaps: list[Row] = []  # of items that are taken to stand

    def put(self, row: Row, old: Item | None) -> None:
        """Put a row where this item stands, which may have expired, or none."""
        rewrite = None if old is None else self.layout.rewrite_values(row, old)
        if rewrite is None:
            self.puts.append(row)
        else:
            self.rewrites.append(rewrite)

    def swap(self, row: Row, old: bytearray) -> None:
        """Put a lasting row where one with this body is taken to stand."""
        pk, sk, size, body = row
        self.swaps.append((size, body, pk, sk, old))

    def run(self, connection: sqlite3.Connection, notes: ExpiryNotes) -> None:
        """Do everything. Raises ``WrongGuess`` when something is not as it was taken to be."""
        for statement, rows in self._by_statement().items():
            if statement is not self.layout.put_lasting:
                notes.write(connection, rows)
            statement.run(connection, rows)
        if self.rewrites:
            connection.executemany(self.layout.rewrite, self.rewrites)
        if self.deletes:
            connection.executemany(self.layout.delete, self.deletes)
        self._run_guesses(connection)

    def _by_statement(self) -> dict[InsertStatement, list[Row]]:
        of_statement: dict[InsertStatement, list[Row]] = defaultdict(list)
        for row in self.puts:
            of_statement[self.layout.put_statement(row)].append(row)
        return of_statement

    def _run_guesses(self, connection: sqlite3.Connection) -> None:
        if self.inserts:
            try:
                self.layout.insert_lasting.run(connection, self.inserts)
            except sqlite3.IntegrityError as error:
                raise WrongGuess from error
        if self.swaps:
            changed = connection.executemany(self.layout.swap, self.swaps)
            if changed.rowcount != len(self.swaps):
                raise WrongGuess
