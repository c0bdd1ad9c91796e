"""Take out of the file what nobody can see any more."""

from __future__ import annotations

import sqlite3

from mlflow_dynamodbstore.table.embedded.file import File
from mlflow_dynamodbstore.table.embedded.lag import Lag
from mlflow_dynamodbstore.table.embedded.layout import Layout
from mlflow_dynamodbstore.table.embedded.writes import TOKEN_SECONDS
from mlflow_dynamodbstore.table.values import Key

# Small, so that a foreground write never waits long for its turn.
BATCH = 100

# DynamoDB takes a time further back for a mistake, and leaves the item alone.
OLDEST = 5 * 365 * 86400

_EXPIRED = "ttl IS NOT NULL AND ttl <= ? AND ttl > ?"


def remove_expired(file: File, layout: Layout, lag: Lag | None, now: float) -> int:
    """Remove items whose time has come, a few at a time, and say how many they were."""
    ages = (int(now), int(now) - OLDEST)
    find = f"SELECT pk, sk FROM items WHERE {_EXPIRED} LIMIT {BATCH}"  # noqa: S608 - constants
    total = 0
    while keys := file.read(lambda connection: connection.execute(find, ages).fetchall()):
        removed = file.write(lambda connection: _remove(connection, layout, lag, keys, ages))
        total += removed
        if not removed:  # all of them were renewed meanwhile
            break
    return total


def _remove(
    connection: sqlite3.Connection,
    layout: Layout,
    lag: Lag | None,
    keys: list[tuple[str, str]],
    ages: tuple[int, int],
) -> int:
    removed = 0
    for pk, sk in keys:
        row = connection.execute(f"{layout.get} AND {_EXPIRED}", (pk, sk, *ages)).fetchone()
        if row is None:
            continue  # renewed or removed since it was found
        if lag is not None:
            lag.note(connection, Key(pk, sk), layout.item(pk, sk, *row))
        connection.execute(layout.delete, (pk, sk))
        removed += 1
    return removed


def forget_notes(file: File, lag: Lag | None, now: float) -> None:
    """Remove tokens of transactions that nobody will repeat, and notes of a lag that is over."""
    old = (now - TOKEN_SECONDS,)
    find = "SELECT 1 FROM tokens WHERE at <= ? LIMIT 1"
    if file.read(lambda connection: connection.execute(find, old).fetchone()):
        file.write_one("DELETE FROM tokens WHERE at <= ?", old)
    if lag is not None:
        file.write(lag.forget)
