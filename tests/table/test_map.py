"""Reading side by side: order, context, and no waiting for oneself."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.workers import PARALLEL_REQUESTS

who: ContextVar[str] = ContextVar("who", default="nobody")


@pytest.fixture(params=[True, False], ids=["waits on a network", "does not"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Table]:
    engine = open_engine(f"dynamodb:///{tmp_path / 't.ddb'}")
    engine.capabilities = replace(engine.capabilities, waits_on_network=request.param)
    table = Table(engine)
    yield table
    table.close()


def test_answers_come_in_the_order_of_the_arguments(table):
    assert table.map(lambda n: n * 2, range(50)) == [n * 2 for n in range(50)]
    assert table.map(lambda n: n, []) == []


def test_calls_see_the_context_of_the_caller(table):
    who.set("caller")
    assert table.map(lambda _: who.get(), range(5)) == ["caller"] * 5


@pytest.mark.timeout(20)
def test_a_call_may_itself_read_side_by_side(table):
    """More of them at once than there are workers: none may wait for a worker to become free."""
    many = range(3 * PARALLEL_REQUESTS)
    found = table.map(lambda n: table.map(lambda m: (n, m), many), many)
    assert found == [[(n, m) for m in many] for n in many]


def test_an_error_of_a_call_is_raised(table):
    with pytest.raises(ZeroDivisionError):
        table.map(lambda n: 1 // n, [1, 0, 2])


def test_calls_that_do_not_depend_on_each_other_are_made_together(table):
    """Each answer keeps its place and its type."""
    assert table.together(lambda: 1, lambda: "two") == (1, "two")
    assert table.together(lambda: 1, lambda: "two", lambda: None) == (1, "two", None)


def test_over_a_network_calls_overlap(tmp_path: Path):
    """All of them are under way at once, up to the size of the pool, nested ones too."""
    engine = open_engine(f"dynamodb:///{tmp_path / 't.ddb'}")
    engine.capabilities = replace(engine.capabilities, waits_on_network=True)
    table = Table(engine)
    all_at_once = Barrier(PARALLEL_REQUESTS)
    table.map(lambda _: all_at_once.wait(20), range(PARALLEL_REQUESTS))
    inner = Barrier(4)
    table.map(lambda _: table.map(lambda _: inner.wait(20), range(2)), range(2))
    table.close()
