"""One table per URI in a process, shared by the stores that use it."""

from __future__ import annotations

import os
from threading import Lock

from mlflow_dynamodbstore.shared.mlflow_errors import translated
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.wrappers.counting import counted

_tables: dict[tuple[int, str], Table] = {}
_lock = Lock()


@translated
def open_table(uri: str) -> Table:
    """The table at a URI, created if it is missing and may be; one object for each URI.

    After a fork the child opens its own table: it cannot share connections and file locks.
    """
    key = (os.getpid(), uri)
    with _lock:
        table = _tables.get(key)
        if table is None:
            table = _tables[key] = Table(counted(open_engine(uri)))
        return table
