"""The threads behind parallel requests."""

from __future__ import annotations

import os
import threading
from functools import partial

import pytest

from mlflow_dynamodbstore.table.dynamodb.workers import Workers


def meet(barrier):
    """Return once all who were expected are here."""
    barrier.wait(10)


def test_one_task_needs_no_thread():
    """A single task is done by the caller."""
    workers, seen = Workers(4), []
    workers.run([lambda: seen.append(threading.current_thread())])
    assert seen == [threading.current_thread()]
    assert workers._threads == 0


def test_every_task_is_done_once():
    """However many tasks and callers there are."""
    workers, done, lock = Workers(3), [], threading.Lock()

    def task(caller, number):
        with lock:
            done.append((caller, number))

    def caller(name):
        workers.run([partial(task, name, n) for n in range(50)])

    callers = [threading.Thread(target=caller, args=(name,)) for name in range(4)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert sorted(done) == [(name, n) for name in range(4) for n in range(50)]
    workers.close()


def test_tasks_may_have_tasks():
    """Workers that wait for workers do not wait for ever."""
    workers, done = Workers(2), []
    inner = [lambda: done.append(1)] * 3
    workers.run([lambda: workers.run(inner)] * 5)
    assert len(done) == 15
    workers.close()


def test_an_error_reaches_the_caller():
    """What a task raises in any thread is raised in the caller's."""
    workers = Workers(2)

    def fail():
        raise ValueError("bad task")

    with pytest.raises(ValueError, match="bad task"):
        workers.run([fail] * 4)
    workers.close()


def test_closing_ends_the_threads_and_a_later_call_starts_new_ones():
    """Closing twice is fine too."""
    workers, before = Workers(3), set(threading.enumerate())
    barrier = threading.Barrier(3)
    workers.run([partial(meet, barrier)] * 3)
    threads = [
        thread
        for thread in threading.enumerate()
        if thread.name.startswith("dynamodb-") and thread not in before
    ]
    assert len(threads) == 2
    assert all(thread.daemon for thread in threads)
    workers.close()
    workers.close()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
    barrier.reset()
    workers.run([partial(meet, barrier)] * 3)
    workers.close()


def test_a_forked_process_has_its_own_threads():
    """The parent's threads are not there after a fork, and are not waited for."""
    workers = Workers(3)
    barrier = threading.Barrier(3)
    workers.run([partial(meet, barrier)] * 3)
    child = os.fork()
    if child == 0:
        own = threading.Barrier(3)
        try:
            workers.run([partial(meet, own)] * 3)
        except BaseException:  # noqa: BLE001 - the parent reads the exit code
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    workers.close()
