"""Transactions: all or none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Check, Delete, Patch, Put, Query
from mlflow_dynamodbstore.table.errors import InvalidRequest, TransactionCancelled
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from tests.table.suite.samples import fill, item, refusal, token, walk

ABSENT = Attr("PK").not_exists()
PRESENT = Attr("PK").exists()


def codes(error: TransactionCancelled) -> list[str | None]:
    return [None if reason is None else reason.code for reason in error.reasons]


def test_all_kinds_of_operation_together(engine):
    """Puts, patches, deletes and checks on any partitions take effect together."""
    fill(engine, [item("p", "deleted"), item("p", "patched", n=1), item("q", "checked")])
    engine.transact(
        [
            Put(item("p", "put", a=1), ABSENT),
            Patch(Key("p", "patched"), Update(add={"n": 1}), PRESENT),
            Delete(Key("p", "deleted"), PRESENT),
            Check(Key("q", "checked"), PRESENT),
            Check(Key("q", "absent"), ABSENT),
        ],
        token(),
    )
    assert walk(engine, Query("p")) == [item("p", "patched", n=2), item("p", "put", a=1)]
    assert walk(engine, Query("q")) == [item("q", "checked")]


def test_one_refusal_cancels_everything(engine):
    """When one condition fails nothing is written, whichever operation it was."""
    fill(engine, [item("p", "there", a=1)])
    for at in range(3):
        writes = [
            Put(item("p", "new")),
            Patch(Key("p", "there"), Update(set={"a": 2})),
            Delete(Key("p", "there2")),
        ]
        writes.insert(at, Check(Key("p", "nobody"), PRESENT))
        with pytest.raises(TransactionCancelled) as cancelled:
            engine.transact(writes, token())
        assert codes(cancelled.value) == ["ConditionFailed" if n == at else None for n in range(4)]
        assert walk(engine, Query("p")) == [item("p", "there", a=1)]


def test_reasons_come_in_order_with_the_old_items(engine):
    """Every refused operation has its reason in its place, with the item it looked at."""
    fill(engine, [item("p", "1", a=1), item("p", "2", b=2)])
    with pytest.raises(TransactionCancelled) as cancelled:
        engine.transact(
            [
                Put(item("p", "1"), ABSENT),
                Put(item("p", "fresh"), ABSENT),
                Delete(Key("p", "2"), Attr("b").eq(3)),
                Check(Key("p", "3"), PRESENT),
                Patch(Key("p", "4"), Update(set={"a": 1})),
            ],
            token(),
        )
    assert codes(cancelled.value) == [
        "ConditionFailed",
        None,
        "ConditionFailed",
        "ConditionFailed",
        None,
    ]
    assert refusal(cancelled.value, 0).old == item("p", "1", a=1)
    assert refusal(cancelled.value, 2).old == item("p", "2", b=2)
    assert refusal(cancelled.value, 3).old is None
    assert not cancelled.value.only_conflicts


@pytest.mark.requires("transaction_tokens")
def test_a_repeated_token_does_nothing_twice(engine):
    """A transaction sent again with its token succeeds and is not done a second time."""
    writes = [Patch(Key("p", "s"), Update(add={"n": 1})), Put(item("p", "guard"), ABSENT)]
    first = token()
    engine.transact(writes, first)
    engine.transact(writes, first)
    assert engine.get(Key("p", "s")) == item("p", "s", n=1)
    with pytest.raises(TransactionCancelled):
        engine.transact(writes, token())
    assert engine.get(Key("p", "s")) == item("p", "s", n=1)


@pytest.mark.requires("transaction_tokens")
def test_a_cancelled_token_may_be_used_again(engine):
    """A transaction that was cancelled left nothing behind, its token neither."""
    writes = [Check(Key("p", "guard"), PRESENT), Put(item("p", "s"))]
    same = token()
    with pytest.raises(TransactionCancelled):
        engine.transact(writes, same)
    engine.apply(Put(item("p", "guard")))
    engine.transact(writes, same)
    assert engine.get(Key("p", "s")) is not None


def test_a_hundred_operations_and_no_more(engine):
    """A transaction takes 100 operations; 101 are refused whole."""
    engine.transact([Put(item("p", f"{n:03}")) for n in range(100)], token())
    assert len(walk(engine, Query("p"))) == 100
    with pytest.raises(InvalidRequest):
        engine.transact([Put(item("q", f"{n:03}")) for n in range(101)], token())
    assert walk(engine, Query("q")) == []


def test_a_key_may_be_named_once(engine):
    """A transaction that names a key twice is an invalid request, checks included."""
    for twice in (
        [Put(item("p", "s")), Delete(Key("p", "s"))],
        [Put(item("p", "s")), Check(Key("p", "s"), ABSENT)],
    ):
        with pytest.raises(InvalidRequest):
            engine.transact(twice, token())
    assert walk(engine, Query("p")) == []


def test_an_item_too_large_cancels_everything(engine):
    """An item that grows past 400 KB cancels the transaction and is named in the reasons."""
    fill(engine, [item("p", "big", body="x" * 390_000)])
    with pytest.raises(TransactionCancelled) as cancelled:
        engine.transact(
            [
                Put(item("p", "new")),
                Patch(Key("p", "big"), Update(set={"more": "x" * 20_000})),
            ],
            token(),
        )
    assert codes(cancelled.value) == [None, "ItemTooLarge"]
    assert engine.get(Key("p", "new")) is None
    assert "more" not in engine.get(Key("p", "big"))


@pytest.mark.requires("copies_counted")
def test_an_item_with_its_copies_too_large_cancels_everything(engine):
    """The operation is named, though the item alone would fit."""
    with pytest.raises(TransactionCancelled) as cancelled:
        engine.transact(
            [Put(item("p", "new")), Put(item("p", "big", lsi1sk="a", body="x" * 210_000))], token()
        )
    assert codes(cancelled.value) == [None, "ItemTooLarge"]
    assert walk(engine, Query("p")) == []


@pytest.mark.requires("exact_limits")
def test_four_megabytes_and_no_more(engine):
    """A transaction's items together may not pass 4 MB."""
    body = "x" * 300_000
    engine.transact([Put(item("p", f"{n}", body=body)) for n in range(13)], token())
    with pytest.raises(InvalidRequest):
        engine.transact([Put(item("q", f"{n}", body=body)) for n in range(14)], token())
    assert walk(engine, Query("q")) == []


def test_transfers_keep_the_sum(engine):
    """Concurrent transfers between accounts lose and make nothing."""
    fill(engine, [item("p", f"{n}", balance=100) for n in range(3)])
    table = Table(engine)

    def transfer(n: int) -> bool:
        """Whether it was done, or refused for want of money."""
        source, target = Key("p", f"{n % 3}"), Key("p", f"{(n + 1) % 3}")
        try:
            table.transact(
                [
                    Patch(source, Update(add={"balance": -30}), Attr("balance").gte(30)),
                    Patch(target, Update(add={"balance": 30})),
                ]
            )
        except TransactionCancelled as error:
            return not error.only_conflicts
        return True

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(transfer, range(40)))
    balances = [one["balance"] for one in walk(engine, Query("p"))]
    assert sum(balances) == 300
    assert min(balances) >= 0
    assert all(done)


def test_reasons_through_a_table_hide_its_own_marks(table):
    """Items among a cancelled transaction's reasons are as the caller wrote them."""
    table.put(item("p", "s", a=1), condition=ABSENT)
    with pytest.raises(TransactionCancelled) as cancelled:
        table.transact([Put(item("p", "s", a=2), ABSENT)])
    assert refusal(cancelled.value, 0).old == item("p", "s", a=1)
