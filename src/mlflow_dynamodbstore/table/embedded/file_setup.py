"""Make a file ours, or make sure that it is.

A file of ours carries SQLite's application id, and in its table ``meta`` the kind of table it is,
the version of its format and its indexes. Any number of processes may open a new file at once:
one makes it, the others find it made.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from mlflow_dynamodbstore.table.embedded.expiry import note_all
from mlflow_dynamodbstore.table.embedded.file import connect, in_transaction, retry_while_busy
from mlflow_dynamodbstore.table.embedded.layout import APPLICATION_ID, EXPIRIES, FORMAT, Layout
from mlflow_dynamodbstore.table.embedded.sqlite_errors import translate
from mlflow_dynamodbstore.table.errors import BadTableURI, SchemaMismatch, TableMissing

T = TypeVar("T")

# A logged metric is a row in the midst of many, and a commit writes every page it touched whole.
# Pages of 8 KB would hold items of up to 2 KB in one piece and make files a quarter smaller, but
# log_batch of ten metrics takes 6 % longer with them and writes 130 KB instead of 80.
_NEW_FILE = ("PRAGMA page_size = 4096",)


def prepare(path: Path, layout: Layout, *, create: bool) -> None:
    """Make sure that a file is there and ours. Raises ``TableMissing``, ``SchemaMismatch`` and
    ``BadTableURI``.
    """
    _check_path(path, create=create)
    try:
        connection = connect(path, "rwc" if create else "rw", _NEW_FILE)
        try:
            # Each look is one transaction: between two, another process may make the file.
            if not _transaction(connection, "BEGIN", lambda c: _is_ours(c, path, layout)):
                if not create:
                    raise _missing(path)
                _transaction(connection, "BEGIN IMMEDIATE", lambda c: _make(c, path, layout))
            _use_write_ahead_log(connection, path)
            _replace_expiry_index(connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise translate(error, path) from error


def _transaction(
    connection: sqlite3.Connection, begin: str, work: Callable[[sqlite3.Connection], T]
) -> T:
    return retry_while_busy(lambda: in_transaction(connection, begin, work))


def _check_path(path: Path, *, create: bool) -> None:
    if path.is_dir():
        raise BadTableURI(f"{path} is a folder; name a file: dynamodb:///{path / 'mlflow.ddb'}")
    if not path.exists():
        if not create:
            raise _missing(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadTableURI(
                f"the folder {path.parent} cannot be made ({error.strerror}); name a file in a "
                "folder you may write to, for example dynamodb:///mlflow.ddb"
            ) from error
    _check_writable(path)


def _check_writable(path: Path) -> None:
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise BadTableURI(
            f"the folder {path.parent} cannot be written to; name a file in a folder you may "
            "write to, for example dynamodb:///mlflow.ddb"
        )
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise BadTableURI(f"the file {path} cannot be written to; allow it, or name another file")


def _is_ours(connection: sqlite3.Connection, path: Path, layout: Layout) -> bool:
    """Whether the file is a table of this schema; False when it is still empty."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == APPLICATION_ID:
        _check_meta(connection, path, layout)
        return True
    if application or tables:
        raise SchemaMismatch(
            f"{path} is a SQLite file of another program; name another file, for example "
            f"dynamodb:///{path.with_name('mlflow.ddb')}"
        )
    return False


def _check_meta(connection: sqlite3.Connection, path: Path, layout: Layout) -> None:
    meta = dict(connection.execute("SELECT name, value FROM meta").fetchall())
    if meta["kind"] != layout.schema.kind:
        raise SchemaMismatch(
            f"{path} holds a table of kind {meta['kind']!r}, not {layout.schema.kind!r}; "
            "name another file"
        )
    if meta["format"] != str(FORMAT):
        raise SchemaMismatch(
            f"{path} has format {meta['format']}, this version reads {FORMAT}; "
            "use the version of mlflow-dynamodbstore that wrote it"
        )
    if meta["indexes"] != layout.description:
        raise SchemaMismatch(
            f"{path} has other indexes: {layout.difference(meta['indexes'])}; "
            "use the version of mlflow-dynamodbstore that wrote it"
        )


def _make(connection: sqlite3.Connection, path: Path, layout: Layout) -> None:
    if _is_ours(connection, path, layout):
        return  # somebody else made it while we waited for the lock
    for statement in layout.definition():
        connection.execute(statement)
    stamps = {"kind": layout.schema.kind, "format": FORMAT, "indexes": layout.description}
    connection.executemany("INSERT INTO meta VALUES (?, ?)", stamps.items())
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _use_write_ahead_log(connection: sqlite3.Connection, path: Path) -> None:
    (mode,) = retry_while_busy(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone())
    if mode != "wal":
        raise BadTableURI(
            f"the file system of {path} offers no shared memory, which many processes need; "
            "name a file on a local disk"
        )


def _replace_expiry_index(connection: sqlite3.Connection) -> None:
    """Let notes tell what will expire in a file of the first days, which has an index of it."""
    find = "SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = 'expiry'"

    def change(connection: sqlite3.Connection) -> None:
        if connection.execute(find).fetchone():
            connection.execute(EXPIRIES)
            note_all(connection)
            connection.execute("DROP INDEX expiry")

    if retry_while_busy(lambda: connection.execute(find).fetchone()):
        _transaction(connection, "BEGIN IMMEDIATE", change)


def _missing(path: Path) -> TableMissing:
    return TableMissing(f"there is no table at {path}; opening dynamodb:///{path} makes one")
