"""SQLite's errors as errors of a table."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from mlflow_dynamodbstore.table.errors import (
    RESCUE,
    AccessDenied,
    Damaged,
    SchemaMismatch,
    TableError,
    TableMissing,
    Unavailable,
)

_BUSY = ("is locked", "locking protocol", "schema has changed")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection holds a lock on the file, so that waiting helps."""
    # By message: Python 3.10 has no error codes.
    return isinstance(error, sqlite3.OperationalError) and any(
        words in str(error) for words in _BUSY
    )


def translate(error: sqlite3.Error, path: Path) -> TableError:
    """The table error for an error of SQLite."""
    words = str(error)
    if is_busy(error):
        return Unavailable(f"another program keeps {path} locked; end it and try again")
    if "no such table" in words or ("unable to open" in words and not path.exists()):
        return table_missing(path)
    if "not a database" in words:
        return SchemaMismatch(f"{path} is not a table file; name another file or move it away")
    if "readonly" in words or "unable to open" in words:
        return AccessDenied(f"{path} cannot be written; allow writing to it and to its folder")
    if "is full" in words:
        return Unavailable(f"the disk that holds {path} is full; make room and try again")
    if "malformed" in words:
        return damaged_file(path)
    if words.startswith("Could not decode to UTF-8"):
        return Damaged(f"a key in {path} is damaged ({words}): {RESCUE}")
    # After a failed write to disk it is unknown how much was written.
    return Unavailable(f"{path} cannot be used: {words}", maybe_applied="disk I/O" in words)


def damaged_file(path: Path) -> Damaged:
    """The error for a file whose structure is damaged."""
    return Damaged(f"a page of {path} is damaged; `doctor` says what it held: {RESCUE}")


def table_missing(path: Path) -> TableMissing:
    """The error for a file without a table."""
    return TableMissing(
        f"there is no table at {path}; check the path, or start a server on dynamodb:///{path}, "
        "which creates it"
    )
