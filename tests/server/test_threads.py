"""Threads of the server."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from mlflow_dynamodbstore.server import threads as threads_module
from mlflow_dynamodbstore.server.threads import OneAtATime, Threads

who: ContextVar[str] = ContextVar("who", default="nobody")


def current_name() -> str:
    return threading.current_thread().name


@pytest.fixture
def one_at_a_time() -> OneAtATime:
    return OneAtATime("one", Threads("others"))


def test_work_is_done_one_after_the_other(one_at_a_time):
    at_once = 0

    def work() -> str:
        nonlocal at_once
        at_once += 1
        assert at_once == 1
        at_once -= 1
        return current_name()

    async def many() -> set[str]:
        return set(await asyncio.gather(*(one_at_a_time.run(work) for _ in range(50))))

    assert len(asyncio.run(many())) == 1


def test_work_does_not_wait_for_long_work(one_at_a_time, monkeypatch):
    monkeypatch.setattr(threads_module, "LONG_SECONDS", 0.0)
    began, may_end = threading.Event(), threading.Event()

    def long_work() -> str:
        began.set()
        assert may_end.wait(30)
        return current_name()

    async def both() -> tuple[str, str]:
        long = asyncio.create_task(one_at_a_time.run(long_work))
        await asyncio.to_thread(began.wait, 30)
        short = await one_at_a_time.run(current_name)
        may_end.set()
        return await long, short

    long, short = asyncio.run(both())
    assert long.startswith("one")
    assert short.startswith("others")
    assert asyncio.run(one_at_a_time.run(current_name)).startswith("one")


def test_work_sees_the_callers_context_and_its_failure_reaches_the_caller(one_at_a_time):
    who.set("somebody")
    assert asyncio.run(one_at_a_time.run(who.get)) == "somebody"
    with pytest.raises(ZeroDivisionError):
        asyncio.run(one_at_a_time.run(lambda: 1 // 0))
    assert asyncio.run(one_at_a_time.run(current_name)).startswith("one")
