"""Create the file of a table, or check that it is ours.

SQLite's application id marks our files, and their table ``meta`` holds the kind of table, the
version of the format, and the indexes. Any number of processes may open a new file at once: one
creates the table, the others find it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from mlflow_dynamodbstore.table.embedded.expiry import note_all
from mlflow_dynamodbstore.table.embedded.file import connect, in_transaction, retry_while_busy
from mlflow_dynamodbstore.table.embedded.file_systems import network_file_system
from mlflow_dynamodbstore.table.embedded.layout import APPLICATION_ID, EXPIRIES, FORMAT, Layout
from mlflow_dynamodbstore.table.embedded.sqlite_errors import damaged_file, table_missing, translate
from mlflow_dynamodbstore.table.errors import BadTableURI, SchemaMismatch

T = TypeVar("T")

# A commit writes whole pages, and a logged metric changes a single row in one. Pages of 8 KB would
# hold items of up to 2 KB in one piece and make files a quarter smaller, but log_batch of ten
# metrics would take 6 % longer and write 130 KB instead of 80.
_NEW_FILE = ("PRAGMA page_size = 4096",)
_WITHOUT_CHECKSUMS = "1"
_FORMATS = (_WITHOUT_CHECKSUMS, str(FORMAT))


def prepare(path: Path, layout: Layout, *, create: bool) -> None:
    """Make sure that the file exists and is ours.

    Raises ``TableMissing``, ``SchemaMismatch`` and ``BadTableURI``.
    """
    _check_path(path, create=create)
    if create:
        _create_private(path)
    try:
        connection = connect(path, "rwc" if create else "rw", _NEW_FILE)
        try:
            # Each check is one transaction: between two, another process may create the tables.
            if not _transaction(connection, "BEGIN", lambda c: _is_ours(c, path, layout)):
                if not create:
                    raise table_missing(path)
                _transaction(connection, "BEGIN IMMEDIATE", lambda c: _make(c, path, layout))
            _choose_journal(connection, path)
            _add_checksums(connection)
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
    if not _may_be_reached(path):
        raise BadTableURI(
            f"a folder above {path} cannot be entered; change its permissions or name a file in "
            "another folder, for example dynamodb:///mlflow.ddb"
        )
    if path.is_dir():
        raise BadTableURI(f"{path} is a folder; name a file: dynamodb:///{path / 'mlflow.ddb'}")
    if not path.exists():
        if not create:
            raise table_missing(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadTableURI(
                f"the folder {path.parent} cannot be created ({error.strerror}); name a file in a "
                "folder you may write to, for example dynamodb:///mlflow.ddb"
            ) from error
    _check_writable(path)


def _may_be_reached(path: Path) -> bool:
    try:
        path.exists()
    except PermissionError:
        return False
    return True


def _create_private(path: Path) -> None:
    """Create an absent file that only its owner may read; SQLite gives its logs the same mode."""
    try:
        # Behind a link, the file that the link names. An existing one is not even opened: closing
        # it would release the locks of this process on it.
        os.close(os.open(path.resolve(), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise BadTableURI(
            f"the file {path} cannot be created ({error.strerror}); name a file in a folder you "
            "may write to, for example dynamodb:///mlflow.ddb"
        ) from error


def _check_writable(path: Path) -> None:
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise BadTableURI(
            f"the folder {path.parent} cannot be written to; name a file in a folder you may "
            "write to, for example dynamodb:///mlflow.ddb"
        )
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise BadTableURI(
            f"the file {path} cannot be written to; change its permissions or name another file, "
            "for example dynamodb:///mlflow.ddb"
        )


def _is_ours(connection: sqlite3.Connection, path: Path, layout: Layout) -> bool:
    """Whether the file holds a table of this schema; False when it is empty."""
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
    if not {"kind", "format", "indexes"} <= meta.keys():
        raise damaged_file(path)
    if meta["kind"] != layout.schema.kind:
        raise SchemaMismatch(
            f"{path} holds a table of kind {meta['kind']!r}, not {layout.schema.kind!r}; "
            "name another file"
        )
    if meta["format"] not in _FORMATS:
        raise SchemaMismatch(
            f"{path} has format {meta['format']}, but this version reads format {FORMAT}; "
            "use the version of mlflow-dynamodbstore that wrote it"
        )
    if meta["indexes"] != layout.description:
        raise SchemaMismatch(
            f"{path} has other indexes: {layout.difference(meta['indexes'])}; "
            "use the version of mlflow-dynamodbstore that wrote it"
        )


def _make(connection: sqlite3.Connection, path: Path, layout: Layout) -> None:
    if _is_ours(connection, path, layout):
        return  # another process created it while this one waited for the lock
    for statement in layout.definition():
        connection.execute(statement)
    stamps = {"kind": layout.schema.kind, "format": FORMAT, "indexes": layout.description}
    connection.executemany("INSERT INTO meta VALUES (?, ?)", stamps.items())
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _choose_journal(connection: sqlite3.Connection, path: Path) -> None:
    """A write-ahead log, or on a network file system a rollback journal."""
    shared = network_file_system(path)
    wanted = "delete" if shared else "wal"
    (mode,) = retry_while_busy(
        lambda: connection.execute(f"PRAGMA journal_mode = {wanted}").fetchone()
    )
    if mode == wanted:
        return
    if shared:
        raise BadTableURI(
            f"{path} is on a network file system ({shared}), where a write-ahead log is not safe, "
            "and has one; end all programs that use it, or name a file on a local disk"
        )
    raise BadTableURI(
        f"the file system of {path} has no shared memory, which several processes need; "
        "name a file on a local disk"
    )


def _add_checksums(connection: sqlite3.Connection) -> None:
    """Make room for checksums in a file of the first format; a row gets one when it is written."""
    find = "SELECT 1 FROM meta WHERE name = 'format' AND value = ?"

    def change(connection: sqlite3.Connection) -> None:
        if connection.execute(find, _WITHOUT_CHECKSUMS).fetchone():
            connection.execute("ALTER TABLE items ADD COLUMN checksum INTEGER")
            connection.execute("UPDATE meta SET value = ? WHERE name = 'format'", (str(FORMAT),))

    if retry_while_busy(lambda: connection.execute(find, _WITHOUT_CHECKSUMS).fetchone()):
        _transaction(connection, "BEGIN IMMEDIATE", change)


def _replace_expiry_index(connection: sqlite3.Connection) -> None:
    """Write notes for an early file, which has an index of expiries instead."""
    find = "SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = 'expiry'"

    def change(connection: sqlite3.Connection) -> None:
        if connection.execute(find).fetchone():
            connection.execute(EXPIRIES)
            note_all(connection)
            connection.execute("DROP INDEX expiry")

    if retry_while_busy(lambda: connection.execute(find).fetchone()):
        _transaction(connection, "BEGIN IMMEDIATE", change)
