"""One SQLite file: how it is opened, waited for, read and written.

SQLite lets many read while one writes, and tells a second writer at once that the file is
locked. Here writers of one process queue on a lock, and those of different processes try again
after short, random pauses, so that "database is locked" is not an answer anybody sees.
"""

from __future__ import annotations

import random
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

from mlflow_dynamodbstore.table.embedded.layout import expiry_size
from mlflow_dynamodbstore.table.embedded.pool import ConnectionPool
from mlflow_dynamodbstore.table.embedded.sqlite_errors import is_busy, translate

T = TypeVar("T")
Synchronous = Literal["FULL", "NORMAL"]

BUSY_SECONDS = 120.0  # seconds; more than any transaction of ours takes by orders of magnitude

_SETTINGS = (
    "PRAGMA cache_size = -16384",  # KiB for each connection
    "PRAGMA mmap_size = 268435456",
    "PRAGMA wal_autocheckpoint = 2000",  # pages: the log is folded back at about 16 MB
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA temp_store = MEMORY",
)


class File:
    """Reads and write transactions on a file, from any thread and any process."""

    def __init__(
        self, path: Path, synchronous: Synchronous, on_open: Callable[[], None] = lambda: None
    ) -> None:
        self.path = path
        self._on_open = on_open  # called whenever a connection was opened
        self._settings = (*_SETTINGS, f"PRAGMA synchronous = {synchronous}")
        self._pool = ConnectionPool(self._connect)
        self.on_rollback: Callable[[], None] = lambda: None  # called when a write came to nothing

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do some reading. What ``work`` reads in several statements may change between them."""
        connection = self._pool.take()
        try:
            return retry_while_busy(lambda: work(connection))
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        finally:
            self._pool.give(connection)

    def snapshot(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do some reading of which every statement sees the same moment."""
        return self.read(lambda connection: in_transaction(connection, "BEGIN", work))

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do some writing, all or none of it; it is durable when this returns."""
        return self._with_write_lock(
            lambda connection: in_transaction(connection, "BEGIN IMMEDIATE", work, self.on_rollback)
        )

    def write_one(self, statement: str, values: Sequence[Any]) -> None:
        """Do one writing statement, which is a transaction of its own."""
        self._with_write_lock(lambda connection: connection.execute(statement, values))

    def close(self) -> None:
        """Close all connections; those in use are closed when their work is done."""
        self._pool.close()

    def _with_write_lock(self, work: Callable[[sqlite3.Connection], T]) -> T:
        connection = self._pool.take()
        try:
            with self._pool.write_lock:
                return retry_while_busy(lambda: work(connection))
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        finally:
            self._pool.give(connection)

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = connect(self.path, "rw", self._settings)
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        # Divides a scan into segments.
        connection.create_function("crc32", 1, _crc32, deterministic=True)
        connection.create_function("expiry_size", 1, expiry_size, deterministic=True)
        self._on_open()
        return connection


def connect(path: Path, mode: Literal["rw", "rwc"], settings: Sequence[str]) -> sqlite3.Connection:
    """A connection to a file, which ``rwc`` creates when it is absent."""
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=0,  # waiting is ours: SQLite's own pauses grow to a tenth of a second
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        for statement in settings:
            retry_while_busy(partial(connection.execute, statement))
    except BaseException:
        connection.close()
        raise
    return connection


def retry_while_busy(work: Callable[[], T]) -> T:
    """Do some work from its beginning again while the file is locked."""
    try:
        return work()  # nearly always enough
    except sqlite3.Error as error:
        if not is_busy(error):
            raise
        last = error
    for _ in pauses():
        try:
            return work()
        except sqlite3.Error as error:
            if not is_busy(error):
                raise
            last = error
    raise last


def pauses() -> Iterator[None]:
    """Go on after short random pauses, until patience ends."""
    deadline = time.monotonic() + BUSY_SECONDS
    longest = 0.0002
    while time.monotonic() < deadline:
        time.sleep(random.uniform(0.00005, longest))
        yield
        longest = min(longest * 1.5, 0.005)


def _crc32(text: str) -> int:
    return zlib.crc32(text.encode())


def in_transaction(
    connection: sqlite3.Connection,
    begin: str,
    work: Callable[[sqlite3.Connection], T],
    on_rollback: Callable[[], None] = lambda: None,
) -> T:
    """Do some work between the beginning and the end of a transaction.

    ``on_rollback`` is called when the work was begun and came to nothing.
    """
    connection.execute(begin)
    try:
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite itself rolls back after a full disk
            connection.execute("ROLLBACK")
        on_rollback()
        raise
    return result
