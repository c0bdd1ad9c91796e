"""Values on the wire and back."""

from __future__ import annotations

import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlflow_dynamodbstore.table.dynamodb.codec import decode_item, encode, encode_item
from mlflow_dynamodbstore.table.dynamodb.transport import to_json
from mlflow_dynamodbstore.table.errors import InvalidRequest, SchemaMismatch

every_double = st.integers(0, 2**64 - 1).map(
    lambda bits: struct.unpack(">d", struct.pack(">Q", bits))[0]
)
text = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.one_of(
    text,
    st.integers(-(10**38) + 1, 10**38 - 1),
    every_double,
    st.binary(),
    st.booleans(),
    st.none(),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=20
)


def identity(value):
    """A value in a form that tells -0.0 from 0.0, one NaN from another, and 1 from True."""
    if isinstance(value, float):
        return ("float", struct.pack(">d", value))
    if isinstance(value, list):
        return [identity(element) for element in value]
    if isinstance(value, dict):
        return {name: identity(element) for name, element in value.items()}
    return (type(value), value)


@given(st.dictionaries(text, values))
def test_what_goes_over_the_wire_comes_back(item):
    """Every value comes back as it was, through JSON and in the form botocore's parser gives."""
    assert identity(decode_item(json.loads(to_json(encode_item(item))))) == identity(item)
    assert identity(decode_item(encode_item(item))) == identity(item)


@given(every_double, every_double)
def test_binary_order_is_the_order_of_doubles(a, b):
    """DynamoDB compares floats as bytes; that is their order, with -0.0 before 0.0."""
    if math.isnan(a) or math.isnan(b) or a == b == 0:
        return
    assert (encode(a)["B"] < encode(b)["B"]) == (a < b)


def test_special_doubles_have_a_place():
    """From minus infinity to NaN, which is above everything."""
    ordered = [-math.inf, -1e300, -5e-324, -0.0, 0.0, 5e-324, 1e300, math.inf, math.nan]
    encoded = [encode(number)["B"] for number in ordered]
    assert encoded == sorted(encoded)
    assert len(set(encoded)) == len(ordered)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (10**38, "38 digits"),
        (-(10**38), "38 digits"),
        ({1, 2}, "cannot hold values of type set"),
        ((1, 2), "cannot hold values of type tuple"),
        ([{"deep": object()}], r"type object \(inside a list\)"),
        ({"map": {1: "x"}}, "names are strings, not int"),
    ],
)
def test_a_value_that_does_not_fit_is_named(value, said):
    """What a table cannot hold is refused here, with the attribute's name."""
    with pytest.raises(InvalidRequest, match=f"attribute 'bad' cannot be stored: .*{said}"):
        encode_item({"PK": "p", "SK": "s", "bad": value})


def test_text_that_utf8_cannot_write_is_refused():
    """Half a surrogate pair is no text."""
    with pytest.raises(InvalidRequest, match="surrogates not allowed"):
        to_json(encode_item({"x": "\ud800"}))


@pytest.mark.parametrize(
    ("wire", "value"),
    [("1E+2", 100), ("0.5", 0.5), ("-7", -7), ("1.0", 1)],
)
def test_numbers_in_other_notations_are_read(wire, value):
    """A number that another program wrote is read as what it is."""
    found = decode_item({"n": {"N": wire}})["n"]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "wire", [{"B": b"\x07other"}, {"B": b""}, {"SS": ["a"]}, {"NS": ["1"]}, {"N": "many"}]
)
def test_values_we_never_write_are_not_guessed_at(wire):
    """A value of another program is an error, not something that looks like ours."""
    with pytest.raises(SchemaMismatch):
        decode_item({"x": wire})
