"""Writing whole items, and the conditions on it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.values import Key
from tests.table.suite.samples import item

KEY = Key("p", "s")
ABSENT = Attr("PK").not_exists()


def test_put_replaces_the_whole_item(engine):
    """A put leaves nothing of the item that was there."""
    engine.apply(Put(item("p", "s", a=1, b=2)))
    engine.apply(Put(item("p", "s", c=3)))
    assert engine.get(KEY) == item("p", "s", c=3)


def test_put_returns_nothing_unless_asked(engine):
    """A put returns None, whether or not something was there."""
    assert engine.apply(Put(item("p", "s"))) is None
    assert engine.apply(Put(item("p", "s"))) is None


def test_put_returns_the_old_item_when_asked(engine):
    """With ``returns="old"`` a put returns what it replaced, None where there was nothing."""
    assert engine.apply(Put(item("p", "s", a=1), returns="old")) is None
    assert engine.apply(Put(item("p", "s", a=2), returns="old")) == item("p", "s", a=1)


def test_put_if_absent_writes_once(engine):
    """A put on the condition that nothing is there succeeds once."""
    engine.apply(Put(item("p", "s", a=1), ABSENT))
    with pytest.raises(ConditionFailed) as refused:
        engine.apply(Put(item("p", "s", a=2), ABSENT))
    assert refused.value.old == item("p", "s", a=1)
    assert engine.get(KEY) == item("p", "s", a=1)


def test_refusal_without_an_item_carries_none(engine):
    """A condition that fails for want of an item carries None as the old item."""
    with pytest.raises(ConditionFailed) as refused:
        engine.apply(Put(item("p", "s", a=1), Attr("PK").exists()))
    assert refused.value.old is None
    assert engine.get(KEY) is None


def test_condition_is_judged_on_the_item_as_it_stood(engine):
    """A condition sees the old item, never the one being written."""
    engine.apply(Put(item("p", "s", version=1)))
    engine.apply(Put(item("p", "s", version=2), Attr("version").eq(1)))
    with pytest.raises(ConditionFailed) as refused:
        engine.apply(Put(item("p", "s", version=2), Attr("version").eq(1)))
    assert refused.value.old == item("p", "s", version=2)


def test_one_of_many_racing_puts_wins(engine):
    """Of several threads that put if absent exactly one succeeds, and its item stays."""

    def attempt(n: int) -> int | None:
        try:
            engine.apply(Put(item("p", "s", winner=n), ABSENT))
        except ConditionFailed:
            return None
        return n

    with ThreadPoolExecutor(8) as pool:
        winners = [n for n in pool.map(attempt, range(24)) if n is not None]
    assert len(winners) == 1
    assert engine.get(KEY) == item("p", "s", winner=winners[0])


def test_put_through_a_table_hides_its_own_marks(table):
    """What a table adds to a write in order to recognise it is never seen by the caller."""
    table.put(item("p", "s", a=1), condition=ABSENT)
    assert table.get(KEY) == item("p", "s", a=1)
    with pytest.raises(ConditionFailed) as refused:
        table.put(item("p", "s", a=2), condition=ABSENT)
    assert refused.value.old == item("p", "s", a=1)
    assert table.put(item("p", "s", a=3), returns="old") == item("p", "s", a=1)
