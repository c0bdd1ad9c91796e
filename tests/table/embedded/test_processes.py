"""Many threads and processes on one file, and processes that fork."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mlflow_dynamodbstore.table.contract import Patch, Put, Query
from mlflow_dynamodbstore.table.embedded import file as embedded_file
from mlflow_dynamodbstore.table.errors import Unavailable
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from tests.table.embedded.opened import KEY, item, open_file

SPAWN = multiprocessing.get_context("spawn")
COUNT = Patch(KEY, Update(add={"n": 1}))


def in_child(work: Callable[[], None]) -> int:
    """Fork, do the work in the child, and give the child's process id."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException:  # noqa: BLE001 - pytest must not go on in the child
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def succeeded(child: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def open_and_count(path: Path, start: float, times: int) -> None:
    time.sleep(max(0.0, start - time.time()))
    engine = open_file(path)
    for _ in range(times):
        engine.apply(COUNT)
    engine.close()


def test_a_new_file_may_be_opened_by_many_processes_at_once(tmp_path):
    """One process makes the file, the others find it made, and none is refused."""
    for attempt in range(12):
        path = tmp_path / f"{attempt}.ddb"
        start = time.time() + 0.05
        children = [in_child(lambda: open_and_count(path, start, 5)) for _ in range(6)]  # noqa: B023
        assert [succeeded(child) for child in children] == [True] * len(children)
        engine = open_file(path)
        assert engine.get(KEY) == item(n=30)
        engine.close()


def test_spawned_processes_share_a_file(path):
    """Processes that have nothing in common but the file lose no update."""
    workers = [SPAWN.Process(target=open_and_count, args=(path, 0.0, 100)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    engine = open_file(path)
    assert engine.get(KEY) == item(n=300)
    engine.close()


def test_threads_share_an_engine(embedded):
    """Updates and reads from many threads at once lose nothing and find no lock."""
    errors: list[BaseException] = []

    def count(number: int) -> None:
        try:
            for n in range(50):
                embedded.apply(COUNT)
                embedded.apply(Put(item("q", f"{number}-{n}")))
                embedded.query(Query("q", limit=10))
        except BaseException as error:  # noqa: BLE001 - reported below
            errors.append(error)

    threads = [threading.Thread(target=count, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert embedded.get(KEY) == item(n=400)
    assert len(embedded.query(Query("q")).items) == 400


def test_a_child_may_go_on_with_its_parents_engine(embedded):
    """After a fork both use the engine as if they had opened it themselves."""
    embedded.apply(COUNT)
    child = in_child(lambda: embedded.apply(COUNT) and None)
    embedded.apply(COUNT)
    assert succeeded(child)
    assert embedded.get(KEY) == item(n=3)


def test_a_child_loses_nothing_when_its_parent_closes(embedded, path):
    """A parent that closes the file leaves the log to the child that still writes to it.

    With a connection open across the fork SQLite would take the parent for the last user and
    delete the log, and with it what the child has been told is written.
    """
    embedded.apply(COUNT)
    ready, go = os.pipe(), os.pipe()

    def work() -> None:
        embedded.apply(COUNT)
        os.write(ready[1], b"x")
        os.read(go[0], 1)
        for _ in range(10):
            embedded.apply(COUNT)

    child = in_child(work)
    os.read(ready[0], 1)
    embedded.apply(COUNT)
    embedded.close()
    os.write(go[1], b"x")
    assert succeeded(child)
    again = open_file(path)
    assert again.get(KEY) == item(n=13)
    again.close()


def test_a_fork_waits_for_writes_under_way(embedded):
    """Forking while threads write neither hangs the child nor loses a write."""
    stop = threading.Event()
    written = [0, 0]

    def write(number: int) -> None:
        while not stop.is_set():
            embedded.apply(Patch(Key("t", str(number)), Update(add={"n": 1})))
            written[number] += 1

    threads = [threading.Thread(target=write, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    children = []
    for _ in range(5):
        time.sleep(0.02)
        children.append(in_child(lambda: embedded.apply(COUNT) and None))
    assert [succeeded(child) for child in children] == [True] * len(children)
    stop.set()
    for thread in threads:
        thread.join()
    assert embedded.get(KEY) == item(n=5)
    for number, count in enumerate(written):
        assert embedded.get(Key("t", str(number))) == item("t", str(number), n=count)


@contextmanager
def held_lock(path: Path) -> Iterator[threading.Event]:
    """Hold the write lock of a file until the event is set, as another program might."""
    taken, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        taken.set()
        let_go.wait()
        connection.execute("ROLLBACK")
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    try:
        yield let_go
    finally:
        let_go.set()
        thread.join()


def test_a_writer_waits_for_a_lock_and_readers_do_not(embedded, path):
    """While another program holds the file, reads go on and a write is done when it lets go."""
    embedded.apply(COUNT)
    with held_lock(path) as let_go:
        assert embedded.get(KEY) == item(n=1)
        writer = threading.Thread(target=lambda: embedded.apply(COUNT))
        writer.start()
        writer.join(0.3)
        assert writer.is_alive()
        let_go.set()
        writer.join()
        embedded.apply(Put(item("other", "s")))
    assert embedded.get(KEY) == item(n=2)


def test_patience_ends_in_an_error_that_says_why(embedded, path, monkeypatch):
    """A file that stays locked is reported as unavailable, and nothing was written."""
    monkeypatch.setattr(embedded_file, "BUSY_SECONDS", 0.1)
    with held_lock(path):
        with pytest.raises(Unavailable, match=r"keeps .* locked") as refused:
            embedded.apply(COUNT)
        assert not refused.value.maybe_applied
    assert embedded.get(KEY) is None


def test_an_interrupt_leaves_the_file_free(embedded, monkeypatch):
    """A write that is interrupted is undone, and the next one finds no lock."""
    embedded.apply(COUNT)

    def interrupted(self, item):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Update, "apply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            embedded.apply(COUNT)
    embedded.apply(COUNT)
    assert embedded.get(KEY) == item(n=2)
