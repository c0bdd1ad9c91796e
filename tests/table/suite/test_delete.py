"""Removing items."""

from __future__ import annotations

import pytest
from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Delete, Put
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.values import Key
from tests.table.suite.samples import fill, item

KEY = Key("p", "s")


def test_delete_removes_one_item(engine):
    """A delete removes the item at its key and no other."""
    fill(engine, [item("p", "s"), item("p", "t"), item("q", "s")])
    engine.apply(Delete(KEY))
    assert engine.get(KEY) is None
    assert engine.get(Key("p", "t")) is not None
    assert engine.get(Key("q", "s")) is not None


def test_deleting_nothing_is_no_error(engine):
    """Deleting what is not there succeeds and returns None."""
    assert engine.apply(Delete(KEY)) is None
    assert engine.apply(Delete(KEY, returns="old")) is None


def test_delete_returns_the_old_item_when_asked(engine):
    """With ``returns="old"`` a delete returns what it removed; otherwise None."""
    engine.apply(Put(item("p", "s", a=1)))
    assert engine.apply(Delete(KEY, returns="old")) == item("p", "s", a=1)
    engine.apply(Put(item("p", "s", a=1)))
    assert engine.apply(Delete(KEY)) is None


def test_refused_delete_removes_nothing(engine):
    """A delete whose condition fails leaves the item and carries it in the error."""
    engine.apply(Put(item("p", "s", a=1)))
    with pytest.raises(ConditionFailed) as refused:
        engine.apply(Delete(KEY, Attr("a").eq(2)))
    assert refused.value.old == item("p", "s", a=1)
    assert engine.get(KEY) == item("p", "s", a=1)
    engine.apply(Delete(KEY, Attr("a").eq(1)))
    assert engine.get(KEY) is None


def test_delete_on_condition_of_existence(engine):
    """A delete that demands an item is refused where there is none."""
    with pytest.raises(ConditionFailed) as refused:
        engine.apply(Delete(KEY, Attr("PK").exists()))
    assert refused.value.old is None
