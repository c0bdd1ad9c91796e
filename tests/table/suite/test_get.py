"""Reading items by key."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.table.contract import Got, Put
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.values import Key
from tests.table.suite.samples import assert_same, fill, item


def test_absent_item_is_none(engine):
    """A key that holds nothing gives None."""
    assert engine.get(Key("p", "s")) is None


def test_item_comes_back_whole(engine):
    """An item comes back with every attribute, its keys among them, and nothing else."""
    written = item("p", "s", text="t", number=1, gsi1pk="g", gsi1sk="h", lsi1sk="l", ttl=9**11)
    engine.apply(Put(written))
    assert_same(engine.get(Key("p", "s")), written)


@pytest.mark.parametrize("consistent", [True, False])
def test_both_kinds_of_read_find_an_item(engine, consistent):
    """A read may be eventually consistent and gives the same item once it has arrived."""
    engine.apply(Put(item("p", "s", a=1)))
    assert engine.get(Key("p", "s"), consistent=consistent) == item("p", "s", a=1)


def test_both_parts_of_the_key_count(engine):
    """Items that share one half of their key are different items."""
    fill(engine, [item("p", "s", a=1), item("p", "t", a=2), item("q", "s", a=3)])
    assert [engine.get(Key(*k))["a"] for k in ("ps", "pt", "qs")] == [1, 2, 3]
    assert engine.get(Key("q", "t")) is None


def test_a_read_item_belongs_to_the_caller(engine):
    """Changing what was read, or what was written, changes nothing in the table."""
    written = item("p", "s", inner={"a": [1]})
    engine.apply(Put(written))
    written["inner"]["a"].append(2)
    engine.get(Key("p", "s"))["inner"]["a"].append(3)
    assert engine.get(Key("p", "s")) == item("p", "s", inner={"a": [1]})


def test_get_many_leaves_out_what_is_absent(engine):
    """A batch read answers by key; absent items are not in the answer, nor unprocessed."""
    fill(engine, [item("p", "1", a=1), item("q", "2", a=2)])
    got = engine.get_many([Key("p", "1"), Key("p", "9"), Key("q", "2")])
    assert got == Got({Key("p", "1"): item("p", "1", a=1), Key("q", "2"): item("q", "2", a=2)}, [])


def test_get_many_takes_a_hundred_keys(engine):
    """A batch read takes 100 keys."""
    fill(engine, [item("p", f"{n:03}", n=n) for n in range(100)])
    got = engine.get_many([Key("p", f"{n:03}") for n in range(100)])
    assert {key.sk: found["n"] for key, found in got.items.items()} == {
        f"{n:03}": n for n in range(100)
    }


def test_get_many_refuses_a_hundred_and_one(engine):
    """A batch read of more than 100 keys is refused whole."""
    with pytest.raises(InvalidRequest):
        engine.get_many([Key("p", f"{n}") for n in range(101)])


def test_get_many_refuses_a_repeated_key(engine):
    """A batch read that names a key twice is refused."""
    with pytest.raises(InvalidRequest):
        engine.get_many([Key("p", "1"), Key("p", "2"), Key("p", "1")])


def test_get_many_through_a_table_takes_any_number(table):
    """Through a table a batch read may be of any size, empty too, and may repeat keys."""
    table.write([Put(item("p", f"{n:03}", n=n)) for n in range(250)])
    keys = [Key("p", f"{n:03}") for n in range(260)]
    found = table.get_many([*keys, *keys[:5]])
    assert {key: one["n"] for key, one in found.items()} == {key: int(key.sk) for key in keys[:250]}
    assert table.get_many([]) == {}
