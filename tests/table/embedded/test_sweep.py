"""Expired items are taken out of the file in the background."""

from __future__ import annotations

import gc
import sqlite3
import threading
import time as real_time

import pytest
from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Put, Query
from mlflow_dynamodbstore.table.embedded.expiry import BATCH
from mlflow_dynamodbstore.table.embedded.sweeper import Sweeper
from mlflow_dynamodbstore.table.errors import TransactionCancelled, Unavailable
from mlflow_dynamodbstore.table.values import Key
from tests.table.embedded.opened import KEY, item, open_file

NOW = 2_000_000_000


def test_only_what_has_expired_is_removed(embedded):
    """An item goes from its second on, and one without a time or with another type never."""
    items = {
        "past": item(sk="past", ttl=NOW - 1),
        "now": item(sk="now", ttl=NOW),
        "future": item(sk="future", ttl=NOW + 1),
        "none": item(sk="none"),
        "float": item(sk="float", ttl=1.0),
        "text": item(sk="text", ttl="1"),
        "huge": item(sk="huge", ttl=10**30),
    }
    embedded.apply_many([Put(i) for i in items.values()])
    assert embedded.sweep(NOW) == 2
    left = {i["SK"] for i in embedded.query(Query("p")).items}
    assert left == set(items) - {"past", "now"}


def test_a_time_years_ago_is_taken_for_a_mistake(embedded):
    """As on DynamoDB, a time more than five years back removes nothing."""
    embedded.apply_many([Put(item(sk="old", ttl=NOW - 6 * 365 * 86400)), Put(item(ttl=12))])
    assert embedded.sweep(NOW) == 0


def test_many_are_removed_in_several_rounds(embedded):
    """More items than one round takes all go, from the indexes too."""
    count = 2 * BATCH + 5
    embedded.apply_many(
        [Put(item(sk=f"{n}", ttl=NOW, gsi1pk="g", gsi1sk=f"{n}")) for n in range(count)]
    )
    assert embedded.sweep(NOW) == count
    assert embedded.query(Query("p")).items == []
    assert embedded.query(Query("g", index="GSI1")).items == []


def test_tokens_of_transactions_are_forgotten(embedded):
    """A token is kept for ten minutes."""
    embedded.transact([Put(item())], "token")
    count = "SELECT count(*) FROM tokens"
    embedded.sweep(real_time.time() + 590)
    assert embedded._file.read(lambda c: c.execute(count).fetchone()) == (1,)
    embedded.sweep(real_time.time() + 610)
    assert embedded._file.read(lambda c: c.execute(count).fetchone()) == (0,)


class Counting:
    """A table that counts its sweeps, and fails the first."""

    def __init__(self):
        self.sweeps = 0
        self.swept = threading.Event()

    def sweep(self):
        self.sweeps += 1
        if self.sweeps == 1:
            raise Unavailable("the disk is full")
        self.swept.set()
        return 0


def test_a_failed_round_is_logged_and_the_next_goes_on(caplog):
    """An error in the background is told in the log and stops nothing."""
    sweeper = Sweeper(first=0.01, every=0.01)
    table = Counting()
    sweeper.watch(table)
    assert table.swept.wait(10)
    sweeper.unwatch(table)
    assert "expired items could not be removed: the disk is full" in caplog.text


def test_a_table_that_keeps_failing_is_told_of_once(caplog):
    """A file that was deleted while it was open would fill the log, a line a minute."""

    class Gone(Counting):
        def sweep(self):
            self.sweeps += 1
            if self.sweeps == 3:
                self.swept.set()
            raise Unavailable("there is no table")

    sweeper = Sweeper(first=0.01, every=0.01)
    table = Gone()
    sweeper.watch(table)
    assert table.swept.wait(10)
    sweeper.unwatch(table)
    assert caplog.text.count("there is no table") == 1


def test_the_thread_ends_with_the_last_table():
    """Closing all tables leaves no thread, and a new table starts one again."""
    sweeper = Sweeper(first=0.01, every=0.01)
    one, other = Counting(), Counting()
    sweeper.watch(one)
    sweeper.watch(other)
    thread = sweeper._thread
    assert thread is not None
    assert thread.daemon
    sweeper.unwatch(one)
    assert sweeper._thread is thread
    sweeper.unwatch(other)
    thread.join(10)
    assert not thread.is_alive()
    sweeper.watch(one)
    assert sweeper._thread is not None
    sweeper.unwatch(one)


def test_a_dropped_table_is_let_go():
    """The sweeper does not keep a table alive that nobody else holds."""
    sweeper = Sweeper(first=0.01, every=0.01)
    table = Counting()
    sweeper.watch(table)
    table.swept.wait(10)
    del table
    gc.collect()
    deadline = real_time.monotonic() + 10
    while len(sweeper._tables) and real_time.monotonic() < deadline:
        real_time.sleep(0.01)
    assert len(sweeper._tables) == 0


def test_an_open_table_is_watched_until_closed(path):
    """A table joins the process's sweeper with its first use and leaves it with ``close``."""
    from mlflow_dynamodbstore.table.embedded.sweeper import sweeper

    engine = open_file(path)
    assert engine.get(KEY) is None
    assert engine in sweeper._tables
    engine.close()
    assert engine not in sweeper._tables


@pytest.mark.parametrize("rounds", [30])
def test_sweeping_disturbs_nobody(embedded, rounds):
    """Writers and readers at work while items expire see no error and lose nothing."""
    stop = threading.Event()
    errors: list[BaseException] = []

    def sweep() -> None:
        try:
            while not stop.is_set():
                embedded.sweep(NOW)
        except BaseException as error:  # noqa: BLE001 - reported below
            errors.append(error)

    thread = threading.Thread(target=sweep)
    thread.start()
    for n in range(rounds):
        embedded.apply_many([Put(item(sk=f"{n}-{m}", ttl=NOW)) for m in range(20)])
        embedded.apply(Put(item("kept", f"{n:03}")))
        assert embedded.get(Key("kept", f"{n:03}")) is not None
    stop.set()
    thread.join()
    embedded.sweep(NOW)
    assert errors == []
    assert len(embedded.query(Query("kept")).items) == rounds
    assert embedded.query(Query("p")).items == []


# --- notes of what will expire ------------------------------------------------------------------


def notes(engine):
    return engine._file.read(lambda c: c.execute("SELECT * FROM expiries").fetchall())


def test_a_run_has_one_note_an_hour(embedded):
    """However many items of a group expire in an hour, one note speaks of them all."""
    points = [Put(item(sk=f"R#1#MHIST#loss#{n}", ttl=NOW + n)) for n in range(10)]
    embedded.apply_many(points)
    embedded.apply(Put(item(sk="R#1#MHIST#loss#10", ttl=NOW + 10)))
    embedded.transact([Put(item(sk="R#2", ttl=NOW))], "token")
    hour = NOW // 3600
    assert notes(embedded) == [(hour, "p", "R#1"), (hour, "p", "R#2")]


def test_notes_go_when_their_hour_is_over(embedded):
    """A note stays while something of its hour is still to come, and goes afterwards."""
    embedded.apply_many([Put(item(sk="R#1#a", ttl=NOW)), Put(item(sk="R#1#b", ttl=NOW + 1))])
    assert embedded.sweep(NOW) == 1
    assert len(notes(embedded)) == 1
    assert embedded.sweep(NOW + 3600) == 1
    assert notes(embedded) == []


def test_redated_items_are_noted(embedded):
    """Items that get an expiry later are found too, and lose it without being removed."""
    embedded.apply_many([Put(item(sk="R#1")), Put(item(sk="R#2"))])
    embedded.redate("p", [("R#1", "R#2")], [], NOW)
    embedded.redate("p", [("R#2", "R#2")], [], None)
    assert embedded.sweep(NOW) == 1
    assert [i["SK"] for i in embedded.query(Query("p")).items] == ["R#2"]


def test_items_that_are_redated_by_their_keys_are_noted(embedded):
    names = [f"RANK#m#{n:03}" for n in range(120)]  # more than one statement changes
    embedded.apply_many([Put(item(sk=sk)) for sk in names])
    embedded.redate("p", [], names[:110], NOW)
    embedded.redate("p", [], names[:5], None)
    assert embedded.sweep(NOW) == 105
    left = [i["SK"] for i in embedded.query(Query("p")).items]
    assert left == names[:5] + names[110:]


def test_a_write_that_came_to_nothing_left_no_note(embedded):
    """What a transaction noted is forgotten with it, and noted again by the next."""
    refused = Put(item(sk="x"), condition=Attr("PK").exists())
    with pytest.raises(TransactionCancelled):
        embedded.transact([Put(item(sk="R#1", ttl=NOW)), refused], "token")
    assert notes(embedded) == []
    embedded.apply(Put(item(sk="R#1", ttl=NOW)))
    assert embedded.sweep(NOW) == 1


def test_a_file_with_an_index_of_expiries_gets_notes(opened, path):
    """The first files had an index instead; it is replaced when such a file is opened."""
    first = opened()
    first.apply_many([Put(item(sk="R#1", ttl=NOW)), Put(item(sk="R#2"))])
    first.close()
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE expiries")
        connection.execute("CREATE INDEX expiry ON items (ttl) WHERE ttl IS NOT NULL")
    engine = opened()
    assert notes(engine) == [(NOW // 3600, "p", "R#1")]
    assert engine.sweep(NOW) == 1
