"""Every value comes back from its line as it was, and there is one line for each item."""

from __future__ import annotations

import json
import struct
from base64 import b64decode
from decimal import Decimal

import pytest
from boto3.dynamodb.types import Binary, TypeDeserializer
from hypothesis import given
from hypothesis import strategies as st

from mlflow_dynamodbstore.table.values import same_value
from mlflow_dynamodbstore.transfer.archive.lines import double_of, double_text, item_line, item_of

DOUBLES = st.binary(min_size=8, max_size=8).map(lambda bits: struct.unpack(">d", bits)[0])
NAMES = st.text(min_size=1, max_size=8)
PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(10**38) + 1, 10**38 - 1)
    | st.text(max_size=20)
    | st.binary(max_size=20)
)
VALUES = st.recursive(
    PLAIN | st.floats() | DOUBLES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
ITEMS = st.dictionaries(NAMES, VALUES, max_size=5)


@given(ITEMS)
def test_every_value_comes_back(item):
    assert same_value(item_of(item_line(item)), item)


@given(DOUBLES | st.floats())
def test_every_double_comes_back_bit_for_bit(value):
    assert struct.pack(">d", double_of(double_text(value))) == struct.pack(">d", value)


@given(ITEMS, st.randoms())
def test_an_item_has_one_line(item, rng):
    names = list(item)
    rng.shuffle(names)
    line = item_line(item)
    assert line == item_line({name: item[name] for name in names})
    assert line.isascii()
    assert b"\n" not in line


@given(st.dictionaries(NAMES, PLAIN, max_size=5))
def test_what_dynamodb_has_is_written_as_dynamodb_writes_it(item):
    typed = json.loads(item_line(item))["Item"]
    read = TypeDeserializer().deserialize({"M": _unpacked(typed)})
    assert {name: _ours(value) for name, value in read.items()} == item


def _unpacked(typed):
    """The base64 undone, as boto3 hands it over."""
    return {n: {"B": b64decode(v["B"])} if "B" in v else v for n, v in typed.items()}


def _ours(value):
    if isinstance(value, Binary):
        return bytes(value)
    return int(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b'{"Item":[]}',
        b'{"Item":{"PK":"plain"}}',
        b'{"Item":{"PK":{"S":1}}}',
        b'{"Item":{"PK":{"S":"a","N":"1"}}}',
        b'{"Item":{"n":{"N":"one"}}}',
        b'{"Item":{"n":{"Z":"one"}}}',
        b'{"Item":{"n":{"B":"?"}}}',
        b'{"Item":{"n":{"L":1}}}',
        b'{"Item":{},"Else":{}}',
        b'{"Trailer":{}}',
        b'{"Item":{"n":{"F":"nan:zz"}}}',
        b"\xff",
    ],
)
def test_a_line_that_is_no_item_is_refused(line):
    with pytest.raises(ValueError):
        item_of(line)
