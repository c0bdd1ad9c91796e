"""Expiry: an item is gone from its second on, whenever storage gets round to removing it."""

from __future__ import annotations

import pytest
from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Check, Delete, Patch, Put, Query, Scan
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from tests.table.suite.samples import item, refusal

KEY = Key("p", "s")
ABSENT = Attr("PK").not_exists()
PRESENT = Attr("PK").exists()
EVERY_INDEX = {"lsi1sk": "l", "lsi2sk": "l", "gsi1pk": "p", "gsi1sk": "g"}


@pytest.fixture
def expired(table, time):
    """A table with an item that stopped existing this very second."""
    table.put(item("p", "s", n=5, ttl=int(time.now) + 10, **EVERY_INDEX))
    time.now += 10
    return table


def test_an_item_lives_until_its_second(table, time):
    """An item is there up to the second in ``ttl``, and gone from it on."""
    table.put(item("p", "s", ttl=int(time.now) + 10))
    time.now += 9.99
    assert table.get(KEY) is not None
    time.now += 0.01
    assert table.get(KEY) is None


def test_expired_items_are_nowhere(expired):
    """No way of reading shows an expired item."""
    assert expired.get(KEY) is None
    assert expired.get_many([KEY]) == {}
    assert expired.query(Query("p")).items == []
    assert expired.query(Query("p", index="LSI1")).items == []
    assert expired.scan(Scan()).items == []


@pytest.mark.requires("index_reads_through")
def test_expired_items_are_not_in_an_index_of_keys(expired):
    """A local index that carries keys only shows no expired items either."""
    assert expired.query(Query("p", index="LSI2")).items == []


def test_pages_of_expired_items_go_on(table, time):
    """A page of which everything has expired is empty and still leads to the next."""
    soon = int(time.now) + 5
    table.write([Put(item("p", f"{n}", **({"ttl": soon} if n < 6 else {}))) for n in range(8)])
    time.now += 5
    page = table.query(Query("p", limit=3))
    assert page.items == []
    assert page.cursor is not None
    assert [one["SK"] for one in table.items(Query("p", limit=3))] == ["6", "7"]


@pytest.mark.parametrize("ttl", ["4", None, 4.0, True, [1]])
def test_only_a_whole_number_expires(table, ttl):
    """A ``ttl`` of another type never expires."""
    table.put(item("p", "s", ttl=ttl))
    assert table.get(KEY) == item("p", "s", ttl=ttl)


def test_put_if_absent_over_an_expired_item(expired):
    """An expired item does not stand in the way of a put if absent."""
    expired.put(item("p", "s", fresh=1), condition=ABSENT)
    assert expired.get(KEY) == item("p", "s", fresh=1)


def test_put_over_an_expired_item_returns_no_old_one(expired):
    """The old image of an expired item is None."""
    assert expired.put(item("p", "s", fresh=1), returns="old") is None


def test_a_demand_for_an_expired_item_is_refused(expired):
    """A condition that demands an item is refused when it has expired, with no old item."""
    for attempt in (
        lambda: expired.put(item("p", "s"), condition=PRESENT),
        lambda: expired.update(KEY, Update(set={"a": 1}), condition=Attr("n").eq(5)),
        lambda: expired.delete(KEY, condition=PRESENT),
    ):
        with pytest.raises(ConditionFailed) as refused:
            attempt()
        assert refused.value.old is None


def test_an_update_starts_afresh(expired):
    """An update of an expired item starts from nothing, conditional or not."""
    new = expired.update(KEY, Update(add={"n": 1}), returns="new")
    assert new == item("p", "s", n=1)
    assert expired.query(Query("p", index="LSI1")).items == []


def test_a_conditional_update_starts_afresh(expired):
    """An update on condition of absence takes an expired item for absent."""
    expired.update(KEY, Update(add={"n": 1}), condition=ABSENT)
    assert expired.get(KEY) == item("p", "s", n=1)


def test_deleting_an_expired_item_finds_nothing(expired):
    """The old image of a delete is None when the item had expired."""
    assert expired.delete(KEY, returns="old") is None


def test_bulk_writes_take_expired_items_for_absent(expired, time):
    """Bulk writes judge conditions, and count, as if expired items were not there."""
    expired.put(item("p", "t", n=7, ttl=int(time.now)))
    outcomes = expired.write(
        [
            Put(item("p", "s", fresh=1), ABSENT),
            Patch(Key("p", "t"), Update(add={"n": 1})),
        ]
    )
    assert [o.status for o in outcomes] == ["applied", "applied"]
    assert expired.get(KEY) == item("p", "s", fresh=1)
    assert expired.get(Key("p", "t")) == item("p", "t", n=1)


def test_transactions_take_expired_items_for_absent(expired, time):
    """Transactions judge conditions and checks as if expired items were not there."""
    for name in ("t", "u"):
        expired.put(item("p", name, n=7, ttl=int(time.now)))
    expired.transact(
        [
            Put(item("p", "s", fresh=1), ABSENT),
            Patch(Key("p", "t"), Update(add={"n": 1})),
            Check(Key("p", "u"), ABSENT),
        ]
    )
    assert expired.get(KEY) == item("p", "s", fresh=1)
    assert expired.get(Key("p", "t")) == item("p", "t", n=1)


def test_a_transaction_that_demands_an_expired_item_is_cancelled(expired):
    """A check or condition that demands an expired item cancels, with no old item."""
    for operation in (
        Check(KEY, PRESENT),
        Delete(KEY, PRESENT),
        Patch(KEY, Update(set={"a": 1}), Attr("n").eq(5)),
    ):
        with pytest.raises(TransactionCancelled) as cancelled:
            expired.transact([Put(item("q", "s")), operation])
        assert cancelled.value.reasons[0] is None
        assert refusal(cancelled.value, 1).code == "ConditionFailed"
        assert refusal(cancelled.value, 1).old is None
    assert expired.get(Key("q", "s")) is None


def test_an_item_can_be_renewed(table, time):
    """Setting ``ttl`` later before it comes keeps an item alive."""
    table.put(item("p", "s", ttl=int(time.now) + 10))
    time.now += 9
    table.update(KEY, Update(set={"ttl": int(time.now) + 10}), condition=PRESENT)
    time.now += 9
    assert table.get(KEY) is not None
    time.now += 1
    assert table.get(KEY) is None


def test_items_get_another_expiry(table, time):
    """Redating changes when items expire, and nothing else of them."""
    later = int(time.now) + 10
    table.put(item("p", "s", n=5, text="x", ttl=int(time.now) + 5, **EVERY_INDEX))
    table.put(item("p", "t", n=6))
    table.put(item("p", "u", n=7))
    table.put(item("q", "s", n=8))
    table.redate("p", [("a", "s"), ("t", "t")], later)
    assert table.get(Key("p", "u")) == item("p", "u", n=7)
    assert table.get(Key("q", "s")) == item("q", "s", n=8)
    assert table.get(KEY) == item("p", "s", n=5, text="x", ttl=later, **EVERY_INDEX)
    assert table.get(Key("p", "t")) == item("p", "t", n=6, ttl=later)
    assert table.query(Query("p", index="LSI1")).items[0]["ttl"] == later
    time.now += 10
    assert [found["SK"] for found in table.query(Query("p")).items] == ["u"]


def test_items_lose_their_expiry(table, time):
    """Redating to never takes the expiry away, also for whoever asks whether there is one."""
    table.put(item("p", "s", n=5, ttl=int(time.now) + 5))
    table.redate("p", [("s", "s")], None)
    time.now += 10
    assert table.get(KEY) == item("p", "s", n=5)
    table.update(KEY, Update(set={"n": 6}), condition=Attr("ttl").not_exists())
    assert table.get(KEY) == item("p", "s", n=6)
