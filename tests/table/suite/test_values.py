"""What goes in comes out: every value an item can hold."""

from __future__ import annotations

import datetime as dt
import decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlflow_dynamodbstore.table.contract import Patch, Put, Query
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from tests.table.suite.samples import assert_same, item, sort_keys, walk
from tests.table.suite.strategies import (
    WORST_DOUBLES,
    double_of,
    doubles,
    names,
    texts,
    values,
    whole_numbers,
)

KEY = Key("p", "s")
on_one_table = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def comes_back(engine, value) -> None:
    engine.apply(Put(item("p", "s", value=value)))
    assert_same(engine.get(KEY), item("p", "s", value=value))


@on_one_table
@given(value=doubles)
def test_every_double_comes_back_bit_for_bit(engine, value):
    """Subnormals, both zeros, infinities and NaNs with any payload keep all their bits."""
    comes_back(engine, [value, {"nested": value}])
    comes_back(engine, value)


def test_the_worst_doubles(engine):
    """The doubles that DynamoDB's own numbers cannot hold come back, in a list and in a map."""
    comes_back(engine, WORST_DOUBLES)
    comes_back(engine, {str(n): value for n, value in enumerate(WORST_DOUBLES)})
    comes_back(engine, [double_of(0x7FF8_0000_0000_0001), double_of(0xFFFF_FFFF_FFFF_FFFF)])


@on_one_table
@given(value=whole_numbers)
def test_whole_numbers_of_38_digits_come_back(engine, value):
    """Whole numbers of up to 38 digits keep every digit and stay whole."""
    comes_back(engine, value)


@on_one_table
@given(attributes=st.dictionaries(names, values, max_size=5))
def test_any_item_comes_back(engine, attributes):
    """Any nesting of the permitted types comes back as it was, types included."""
    written = {**attributes, "PK": "p", "SK": "s"}
    written = {k: v for k, v in written.items() if k not in engine.schema.key_attributes[2:]}
    engine.apply(Put(written))
    assert_same(engine.get(KEY), written)


@pytest.mark.parametrize(
    "value",
    [
        "",
        b"",
        [],
        {},
        [[], {}, "", b"", None],
        True,
        1,
        1.0,
        "\x00",
        "a\x00b",
        "📈" * 250,
        "e\u0301 \u00e9",
        "\uffff\U00010000\U0010ffff",
        {"1": 1, "true": True, " ": {"x": ""}},
        b"\x00\x01\xff",
        -(10**38) + 1,
        2**63,
        -(2**63) - 1,
        [[[[[[[["deep"]]]]]]]],
    ],
    ids=repr,
)
def test_values_at_the_edges(engine, value):
    """Empty, large, nested and look-alike values keep their type and content."""
    comes_back(engine, value)
    engine.apply(Patch(KEY, Update(set={"patched": value}, if_absent={"other": value})))
    found = engine.get(KEY)
    assert_same([found["patched"], found["other"]], [value, value])


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        (1, 2),
        decimal.Decimal(1),
        dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc),
        object(),
        10**39 + 1,
        {1: "a"},
        "\ud800",
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_values_are_refused(engine, value):
    """A value of another type, or out of range, is an invalid request wherever it stands."""
    for wrong in (value, [value], {"a": value}):
        with pytest.raises(InvalidRequest):
            engine.apply(Put(item("p", "s", wrong=wrong)))
        with pytest.raises(InvalidRequest):
            engine.apply(Patch(KEY, Update(set={"wrong": wrong})))
    assert engine.get(KEY) is None


def test_the_attribute_at_fault_is_named(engine):
    """The error for a wrong value names the attribute it stands in."""
    with pytest.raises(InvalidRequest, match="culprit"):
        engine.apply(Put(item("p", "s", innocent=1, culprit=object())))


@settings(on_one_table, max_examples=settings().max_examples // 2)
@given(keys=st.lists(texts.filter(bool), min_size=1, max_size=8, unique=True))
def test_any_text_is_a_key(engine, keys):
    """Keys may hold any characters, and sort by their UTF-8 bytes."""
    partition = "p" + keys[0]
    for sk in keys:
        engine.apply(Put({"PK": partition, "SK": sk, "own": sk, "lsi1sk": sk}))
    for sk in keys:
        assert engine.get(Key(partition, sk)) == item(partition, sk, own=sk, lsi1sk=sk)
    found = sort_keys(walk(engine, Query(partition)))
    assert found == sorted(found, key=str.encode)
    assert set(keys) <= set(found)
    assert sort_keys(walk(engine, Query(partition, index="LSI1"))) == found


def test_keys_of_250_four_byte_characters(engine):
    """A sort key of 250 four-byte characters is a key like any other."""
    name = "📈" * 250
    engine.apply(Put(item("p", name, lsi1sk=name)))
    assert engine.get(Key("p", name)) == item("p", name, lsi1sk=name)
    assert sort_keys(walk(engine, Query("p", index="LSI1"))) == [name]
