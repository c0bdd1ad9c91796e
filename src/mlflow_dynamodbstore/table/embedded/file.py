"""One SQLite file: opening, waiting for, reading and writing it.

SQLite allows many readers and one writer, and refuses a second writer with "database is locked".
Here the writers of one process queue on a lock, and those of different processes try again after
short, random pauses.
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

from mlflow_dynamodbstore.table.embedded.file_systems import network_file_system
from mlflow_dynamodbstore.table.embedded.pool import ConnectionPool
from mlflow_dynamodbstore.table.embedded.sqlite_errors import is_busy, translate

T = TypeVar("T")
Synchronous = Literal["FULL", "NORMAL"]

MAPPED_BYTES = 256 * 1024 * 1024
BUSY_SECONDS = 120.0  # far more than any transaction of ours takes

_SETTINGS = (
    "PRAGMA cache_size = -16384",  # 16 MB for each connection
    "PRAGMA wal_autocheckpoint = 2000",  # pages: the log is written back at about 8 MB
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA temp_store = MEMORY",
)


class File:
    """Reads and write transactions on a file, from any thread and any process."""

    def __init__(
        self, path: Path, synchronous: Synchronous, on_open: Callable[[], None] = lambda: None
    ) -> None:
        self.path = path
        self._on_open = on_open  # called after a connection was opened
        self._settings = (*_SETTINGS, *_settings_for(path, synchronous))
        self._pool = ConnectionPool(self._connect)
        self.on_rollback: Callable[[], None] = lambda: None  # called after a write was rolled back

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read. The statements of ``work`` may see different states of the file."""
        connection = self._pool.take()
        try:
            return retry_while_busy(lambda: work(connection))
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        finally:
            self._pool.give(connection)

    def fetch(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """All rows that one statement reads."""
        return self.read(lambda connection: connection.execute(statement, values).fetchall())

    def snapshot(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Read. The statements of ``work`` all see the same state of the file."""
        return self.read(lambda connection: in_transaction(connection, "BEGIN", work))

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Write all or nothing. The writes are durable when this returns."""
        return self._with_write_lock(
            lambda connection: in_transaction(connection, "BEGIN IMMEDIATE", work, self.on_rollback)
        )

    def write_one(self, statement: str, values: Sequence[Any]) -> None:
        """Execute one statement as a transaction of its own."""
        self._with_write_lock(lambda connection: connection.execute(statement, values))

    def close(self) -> None:
        """Close all connections; one in use is closed when its work is done."""
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
        self._on_open()
        return connection


def _settings_for(path: Path, synchronous: Synchronous) -> tuple[str, ...]:
    if network_file_system(path) is None:
        return f"PRAGMA mmap_size = {MAPPED_BYTES}", f"PRAGMA synchronous = {synchronous}"
    # A host does not see in mapped memory what others write. A commit removes the rollback journal,
    # which survives a power cut only with EXTRA.
    level = "EXTRA" if synchronous == "FULL" else synchronous
    return "PRAGMA mmap_size = 0", f"PRAGMA synchronous = {level}"


def connect(path: Path, mode: Literal["rw", "rwc"], settings: Sequence[str]) -> sqlite3.Connection:
    """A connection to a file; ``rwc`` creates an absent one."""
    connection = sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=0,  # we wait ourselves: SQLite's pauses grow to a tenth of a second
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
    """Do some work, and start it again while the file is locked."""
    try:
        return work()  # the common case, without a generator
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
    """Yields after short, random pauses, for ``BUSY_SECONDS``."""
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
    """Do some work in a transaction. ``on_rollback`` is called after it was rolled back."""
    connection.execute(begin)
    try:
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # when the disk is full, SQLite itself rolls back
            connection.execute("ROLLBACK")
        on_rollback()
        raise
    return result
