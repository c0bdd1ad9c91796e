"""The log of slow calls."""

from __future__ import annotations

import logging

import pytest
from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Delete, Put, Query, Scan
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.table.wrappers.slowlog import SlowLogEngine
from tests.table.suite.samples import item, token


class Ticks:
    """A clock on which every call takes so many seconds."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds = 0.0, seconds

    def __call__(self) -> float:
        self.now += self.seconds
        return self.now


def every_call(engine) -> None:
    engine.apply(Put(item("p", "s")))
    engine.get(Key("p", "s"))
    engine.get_many([Key("p", "s"), Key("q", "s")])
    engine.apply_many([Put(item("p", "t")), Put(item("q", "t"))])
    engine.transact([Delete(Key("p", "t"))], token())
    engine.query(Query("p"))
    engine.query(Query("g", index="GSI1"))
    engine.scan(Scan())


def test_slow_calls_are_warnings_with_operation_partition_and_duration(engine, caplog):
    """A call over the threshold is a warning that says what was called, where, and how long."""
    with caplog.at_level(logging.DEBUG):
        every_call(SlowLogEngine(engine, threshold=0.5, clock=Ticks(0.75)))
    ours = [r for r in caplog.records if "wrappers.slowlog" in r.name]
    assert {record.levelno for record in ours} == {logging.WARNING}
    assert [record.getMessage() for record in ours] == [
        "apply on p took 750.0 ms",
        "get on p took 750.0 ms",
        "get_many on p and 1 more partitions (2 keys) took 750.0 ms",
        "apply_many on p and 1 more partitions (2 keys) took 750.0 ms",
        "transact on p (1 keys) took 750.0 ms",
        "query on p took 750.0 ms",
        "query on GSI1:g took 750.0 ms",
        "scan on segment 0 of 1 took 750.0 ms",
    ]


def test_quick_calls_are_debug_messages(engine, caplog):
    """A call under the threshold is logged for debugging only."""
    with caplog.at_level(logging.DEBUG):
        every_call(SlowLogEngine(engine, threshold=1.0, clock=Ticks(0.75)))
    ours = [r for r in caplog.records if "wrappers.slowlog" in r.name]
    assert {record.levelno for record in ours} == {logging.DEBUG}
    assert len(ours) == 8


def test_a_call_that_raised_is_logged_too(engine, caplog):
    """The error of a call that raised is named, and passed on."""
    slow = SlowLogEngine(engine, threshold=0.5, clock=Ticks(0.75))
    with caplog.at_level(logging.WARNING), pytest.raises(ConditionFailed):
        slow.apply(Put(item("p", "s"), Attr("PK").exists()))
    assert "apply on p took 750.0 ms, raised ConditionFailed" in caplog.text
