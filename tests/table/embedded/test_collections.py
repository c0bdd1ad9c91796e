"""With ``collection_limit`` a partition refuses to grow past its limit."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.table.contract import Delete, Patch, Put
from mlflow_dynamodbstore.table.errors import CollectionFull, TransactionCancelled
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from tests.table.embedded.opened import item

LIMIT = 1000
HALF = item(sk="a", v="x" * 490)


@pytest.fixture
def full(opened):
    """A partition with a few bytes left."""
    engine = opened(collection_limit=LIMIT)
    engine.apply_many([Put(HALF), Put({**HALF, "SK": "b"})])
    assert LIMIT - 20 < 2 * item_size(HALF) <= LIMIT
    return engine


def test_a_full_partition_refuses_new_and_larger_items(full):
    """Neither a put nor a patch may grow it; what was there stays."""
    with pytest.raises(CollectionFull, match="'p' would pass its limit of 1000 bytes"):
        full.apply(Put(item(sk="c", v="x" * 20)))
    with pytest.raises(CollectionFull):
        full.apply(Patch(Key("p", "a"), Update(set={"w": "x" * 20})))
    assert full.get(Key("p", "a")) == HALF
    assert full.get(Key("p", "c")) is None


def test_shrinking_replacing_and_deleting_are_allowed(full):
    """A write that does not grow a full partition is done, and makes room."""
    full.apply(Put({**HALF, "v": "y" * 490}))
    full.apply(Patch(Key("p", "a"), Update(set={"v": "y"})))
    full.apply(Delete(Key("p", "b")))
    full.apply(Put(item(sk="c", v="x" * 900)))


def test_other_partitions_have_room(full):
    """The limit is each partition's own."""
    full.apply(Put(item("other", "s", v="x" * 900)))


def test_the_limit_is_inclusive(opened):
    """A partition may be exactly as large as its limit."""
    engine = opened(collection_limit=item_size(HALF))
    engine.apply(Put(HALF))
    with pytest.raises(CollectionFull):
        engine.apply(Put({**HALF, "v": "x" * 491}))


def test_in_bulk_only_the_growing_writes_fail(full):
    """A full partition fails the writes it cannot take, and no others."""
    outcomes = full.apply_many(
        [Put(item(sk="c", v="x" * 20)), Put(item("other", "s")), Delete(Key("p", "a"))]
    )
    assert [o.status for o in outcomes] == ["failed", "applied", "applied"]
    assert isinstance(outcomes[0].error, CollectionFull)


def test_a_transaction_is_cancelled_with_the_reason(opened):
    """Writes of one transaction count together against the limit, and none remains."""
    engine = opened(collection_limit=LIMIT)
    with pytest.raises(TransactionCancelled) as cancelled:
        engine.transact([Put({**HALF, "SK": sk}) for sk in "abc"], "token")
    assert [r and r.code for r in cancelled.value.reasons] == [None, None, "CollectionFull"]
    assert engine.get(Key("p", "a")) is None
