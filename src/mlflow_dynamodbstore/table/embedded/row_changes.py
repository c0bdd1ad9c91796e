"""What many writes do to the rows of the file, and which of them need not read a row first.

A write with a condition is judged by the stored item. A training loop writes the same few items
again and again, and reading back what this process has just written takes a tenth of the time of
logging. So the last small items written are *remembered*: a write is judged by the remembered item,
and its statement changes the row only if that item is still stored. Likewise a write that demands
absence is simply inserted. When a guess was wrong, because another process has written, the
transaction is rolled back and repeated with every item read, and some batches do not guess.
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
    """The stored item is not the guessed one."""


class RecentPuts:
    """The last small items that this process put under a condition.

    Only the holder of the write lock may use it. It must call ``forget`` after a rollback.
    """

    def __init__(self) -> None:
        # Items without expiry that are in no index, each with the body of its row.
        self.known: dict[RowKey, tuple[Item, bytearray]] = {}
        self._caution = 0

    def is_trusted(self) -> bool:
        """Whether the next batch should guess; not soon after a wrong guess."""
        if self._caution:
            self._caution -= 1
        return not self._caution

    def was_wrong(self) -> None:
        """Stop guessing for some batches: another process writes the same items."""
        self._caution = CAUTIOUS_BATCHES

    def note(self, key: RowKey, row: Row, item: Item) -> None:
        """Remember what a transaction puts, if it is small and lasting."""
        body: Any = row[BODY_COLUMN]
        if len(row) > LASTING_COLUMNS or len(body) > LARGEST_REMEMBERED:
            return
        if len(self.known) >= MOST_REMEMBERED:
            self.known.clear()
        self.known[key] = (item.copy(), body)  # the caller may change its own

    def forget(self) -> None:
        """Forget everything: the last writes may have been rolled back."""
        self.known.clear()


class RowChanges:
    """What many writes do to the rows of the file.

    SQLite gets the statements of one kind together, which halves their cost.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.blind_puts: list[Row] = []
        self.blind_deletes: list[RowKey] = []
        self.reset()

    def reset(self) -> None:
        """Prepare for a transaction, or for its repetition after a rollback."""
        self.puts = self.blind_puts.copy()  # over any stored item
        self.deletes = self.blind_deletes.copy()
        self.inserts: list[Row] = []  # lasting items, guessed to be absent
        self.rewrites: list[Row] = []  # of stored items that were read
        self.swaps: list[Row] = []  # of stored items that were guessed

    def put(self, row: Row, old: Item | None) -> None:
        """Put a row over a stored item, which may have expired, or where there is none."""
        rewrite = None if old is None else self.layout.rewrite_values(row, old)
        if rewrite is None:
            self.puts.append(row)
        else:
            self.rewrites.append(rewrite)

    def swap(self, row: Row, old: bytearray) -> None:
        """Put a lasting row over one that is guessed to have this body."""
        pk, sk, size, checksum, body = row
        self.swaps.append((size, checksum, body, pk, sk, old))

    def run(self, connection: sqlite3.Connection, notes: ExpiryNotes) -> None:
        """Execute everything. Raises ``WrongGuess``."""
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
