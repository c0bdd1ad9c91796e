"""The threads behind parallel requests."""

from __future__ import annotations

import os
import threading
import time
from functools import partial

import pytest

from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.workers import (
    SIZE_VARIABLE,
    Workers,
    parallel_requests,
    process_workers,
    replaced_workers,
)


def meet(barrier):
    """Return once all who were expected are here."""
    barrier.wait(10)


def meeting(count):
    """Tasks that end only if all of them run at once."""
    return [partial(meet, threading.Barrier(count))] * count


def wait_until(happened):
    """Whether something happens within ten seconds."""
    end = time.monotonic() + 10
    while not (there := happened()) and time.monotonic() < end:
        time.sleep(0.001)
    return there


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


def test_threads_start_only_when_none_is_free():
    """Calls one after another share their threads; calls at the same time get more."""
    workers = Workers(8)
    for _ in range(3):
        workers.run(meeting(3))
        assert wait_until(lambda: workers._free == 2)
    assert workers._threads == 2

    both = threading.Barrier(6)
    callers = [
        threading.Thread(target=workers.run, args=([partial(meet, both)] * 3,)) for _ in range(2)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(10)
    assert workers._threads == 4
    workers.close()


def test_a_caller_goes_on_while_all_threads_are_busy():
    """A long bulk write of one caller does not stop another."""
    workers, release = Workers(3), threading.Event()
    busy = threading.Thread(target=workers.run, args=([partial(release.wait, 10)] * 3,))
    busy.start()
    assert wait_until(lambda: workers._free == 0 and workers._threads == 2)
    done: list[int] = []
    workers.run([partial(done.append, n) for n in range(5)])
    assert done == [0, 1, 2, 3, 4]
    release.set()
    busy.join(10)
    workers.close()


def test_a_forked_process_has_a_pool_of_its_own():
    """The parent's threads are not there after a fork, and are not waited for."""
    process_workers().run(meeting(3))
    child = os.fork()
    if child == 0:
        try:
            process_workers().run(meeting(3))
        except BaseException:  # noqa: BLE001 - the parent reads the exit code
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_process_has_one_pool():
    """All tables share it, and a test may replace it for a while."""
    pool = process_workers()
    assert process_workers() is pool
    with replaced_workers(other := Workers(2)):
        assert process_workers() is other
    assert process_workers() is pool


def test_the_environment_sets_the_size_of_the_pool(monkeypatch):
    """32 by default; what is not a number of threads is refused."""
    monkeypatch.delenv(SIZE_VARIABLE, raising=False)
    assert parallel_requests() == 32
    monkeypatch.setenv(SIZE_VARIABLE, "5")
    assert parallel_requests() == 5
    for wrong in ("0", "-1", "many", "1.5"):
        monkeypatch.setenv(SIZE_VARIABLE, wrong)
        with pytest.raises(InvalidRequest, match=SIZE_VARIABLE):
            parallel_requests()
