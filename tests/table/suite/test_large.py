"""Values larger than an item: compressed, split, and never left in halves."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.table.contract import Put, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Key
from tests.faults import CrashingEngine, SimulatedCrash, When
from tests.table.suite.samples import assert_same, item, walk
from tests.table.suite.strategies import WORST_DOUBLES

HEAD = Key("p", "head")
MEGABYTE = 1024 * 1024


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that do not compress."""
    return random.Random(seed).randbytes(size)


def save(table: Table, value: Any) -> None:
    """Write a value as its users do: parts, head, then the parts of the value before it."""
    old = table.get(HEAD)
    stored = large_values.store(HEAD, "value", value)
    table.write(stored.parts, then=[Put({"PK": HEAD.pk, "SK": HEAD.sk, **stored.attributes})])
    table.write(large_values.removal(old, "value") if old else [])


def load(table: Table) -> Any:
    head = table.get(HEAD)
    assert head is not None
    return large_values.load(table, head, "value")


def remove(table: Table) -> None:
    head = table.get(HEAD)
    if head is not None:
        table.delete(HEAD)
        table.write(large_values.removal(head, "value"))


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "short",
        {"a": [1, -(2**62), 2**63, "x"], "floats": WORST_DOUBLES, "raw": b"\x00\xff"},
        "long and alike " * 200_000,
        noise(255 * 1024),
        noise(257 * 1024),
        noise(3 * MEGABYTE),
        {"deep": [noise(700_000), "x" * 700_000]},
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_value_of_any_size_comes_back(table, value):
    """A value comes back as it was, however large."""
    save(table, value)
    assert_same(load(table), value)


def test_a_small_value_takes_one_item(table):
    """What fits stays inside its head item, and so does much that compresses."""
    save(table, "long and alike " * 200_000)
    assert len(walk(table.engine, Query("p"))) == 1


def test_replacing_leaves_no_old_parts(table):
    """After a value is replaced only the parts of the new one are there."""
    for seed, size in enumerate([2 * MEGABYTE, MEGABYTE, 3 * MEGABYTE, 10]):
        save(table, noise(size, seed))
        assert load(table) == noise(size, seed)
        kept = 1 + len(large_values.part_keys(table.get(HEAD), "value"))
        assert len(walk(table.engine, Query("p", keys_only=True))) == kept


def test_removing_leaves_nothing(table):
    """After a value is removed nothing of it is there."""
    save(table, noise(2 * MEGABYTE))
    remove(table)
    assert walk(table.engine, Query("p", keys_only=True)) == []


def test_parts_expire_with_their_head(table, time):
    """A value with a ``ttl`` is gone with all its parts."""
    soon = int(time.now) + 60
    stored = large_values.store(HEAD, "value", noise(MEGABYTE), ttl=soon)
    head = Put(item("p", "head", **stored.attributes, ttl=soon))
    table.write(stored.parts, then=[head])
    assert load(table) == noise(MEGABYTE)
    time.now += 60
    assert list(table.items(Query("p"))) == []


def test_a_missing_part_is_an_error(table):
    """A head whose parts are gone raises, and does not give half a value."""
    save(table, noise(MEGABYTE))
    table.delete(large_values.part_keys(table.get(HEAD), "value")[1])
    with pytest.raises(large_values.LargeValueLost):
        load(table)


def test_a_reader_with_an_old_head_gets_the_new_value(table):
    """A reader whose head was replaced while it read gets the value that replaced it."""
    save(table, noise(MEGABYTE, 1))
    head = table.get(HEAD)
    save(table, noise(MEGABYTE, 2))
    assert large_values.load(table, head, "value") == noise(MEGABYTE, 2)


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_crash_anywhere_leaves_the_old_value_or_the_new(table, when: When):
    """Wherever a writer dies while replacing a value, a whole value is there."""
    for at in range(1, 4):
        save(table, noise(MEGABYTE, 1))
        dying = CrashingEngine(table.engine, at=at, when=when)
        with pytest.raises(SimulatedCrash):
            save(Table(dying), noise(MEGABYTE + 1, 2))
        assert load(table) in (noise(MEGABYTE, 1), noise(MEGABYTE + 1, 2))
        if at == 1:
            assert load(table) == noise(MEGABYTE, 1)


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_a_crash_while_removing_leaves_all_or_no_value(table, when: When):
    """Wherever a remover dies, there is a whole value or none."""
    for at in range(1, 3):
        save(table, noise(MEGABYTE))
        with pytest.raises(SimulatedCrash):
            remove(Table(CrashingEngine(table.engine, at=at, when=when)))
        head = table.get(HEAD)
        assert head is None or large_values.load(table, head, "value") == noise(MEGABYTE)
