"""Connections to one file, shared by the threads of a process and closed before it forks.

A connection is taken for one operation and given back. There are as many as operations have ever
run at once. SQLite's locks belong to a process, but ``fork`` copies its record of them: a child
would assume locks that it does not hold, and the parent, closing the file as its last user, would
delete the log that the child still writes to. So every connection is closed before a fork, and
parent and child each open new ones when they need them.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable

from mlflow_dynamodbstore.table.errors import InvalidRequest

FORK_SECONDS = 30.0


class ConnectionPool:
    """Idle connections, and the means to open more."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._idle: deque[sqlite3.Connection] = deque()
        self._all: set[sqlite3.Connection] = set()
        self._opening = threading.Lock()  # held while a connection is opened or the process forks
        self._closed = False
        self._forking = False
        # One thread writes at a time. It takes the lock after a connection: a fork waits for all
        # connections, and so never copies the lock locked.
        self.write_lock = threading.Lock()
        with _fork_lock:  # no fork may iterate over the pools now
            _pools.add(self)

    def take(self) -> sqlite3.Connection:
        """A connection for the caller alone, until it is given back."""
        if not self._forking:
            try:
                return self._idle.pop()
            except IndexError:
                pass
        return self._open()

    def give(self, connection: sqlite3.Connection) -> None:
        """Take a connection back; close it if an interrupt left it inside a transaction."""
        if connection.in_transaction:
            self._all.discard(connection)
            connection.close()
            return
        self._idle.append(connection)
        if self._closed:
            with self._opening:
                self._close_idle()

    def close(self) -> None:
        """Close all connections; one in use is closed when it is given back."""
        with self._opening:
            self._closed = True
            self._close_idle()

    def suspend(self) -> None:
        """Close all connections, wait for those in use, and allow no new ones."""
        self._opening.acquire()
        self._forking = True
        deadline = time.monotonic() + FORK_SECONDS
        self._close_idle()
        while self._all and time.monotonic() < deadline:
            time.sleep(0.0005)
            self._close_idle()

    def resume(self) -> None:
        """Allow new connections again."""
        self._forking = False
        self._opening.release()

    def reset_after_fork(self) -> None:
        """In a forked child: drop the parent's connections without closing them."""
        _abandoned.extend(self._all)
        self._all.clear()
        self._idle.clear()
        self._forking = False
        self._opening = threading.Lock()
        self.write_lock = threading.Lock()

    def _open(self) -> sqlite3.Connection:
        with self._opening:
            if self._closed:
                raise InvalidRequest("this table was closed; open it again")
            connection = self._connect()
            self._all.add(connection)
            return connection

    def _close_idle(self) -> None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return
            self._all.discard(connection)
            connection.close()


_pools: weakref.WeakSet[ConnectionPool] = weakref.WeakSet()
_held: list[ConnectionPool] = []
_fork_lock = threading.Lock()
_abandoned: list[sqlite3.Connection] = []  # the parent's: to close one would touch its file


def _before_fork() -> None:
    _fork_lock.acquire()
    for pool in list(_pools):
        pool.suspend()
        _held.append(pool)


def _after_fork_in_parent() -> None:
    while _held:
        _held.pop().resume()
    _fork_lock.release()


def _after_fork_in_child() -> None:
    global _fork_lock  # noqa: PLW0603 - a thread of the parent may hold the old one
    _fork_lock = threading.Lock()
    _held.clear()
    for pool in list(_pools):
        pool.reset_after_fork()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
