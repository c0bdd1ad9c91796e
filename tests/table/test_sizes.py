"""Item sizes follow DynamoDB's rules; the figures were measured on dynoxide."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.values import Value

SIZES: list[tuple[Value, int]] = [
    ("abc", 3),
    ("é", 2),
    ("😀", 4),
    ("", 0),
    (0, 1),
    (1, 2),
    (-1, 3),
    (10, 2),
    (12, 2),
    (100, 2),
    (-100, 3),
    (123, 3),
    (1234, 3),
    (-123, 4),
    (1230000, 3),
    (1700000000, 2),
    (10000000001, 7),
    (1700000000123, 8),
    (12345678901234567890123456789012345678, 20),
    (0.5, 9),
    (b"12345678", 9),
    (True, 1),
    (False, 1),
    (None, 1),
    ([], 3),
    (["a"], 5),
    (["a", "b"], 7),
    ([[]], 7),
    ({}, 3),
    ({"k": "a"}, 6),
    ({"k": "a", "kk": 1}, 11),
]


@pytest.mark.parametrize(("value", "size"), SIZES, ids=repr)
def test_a_value_has_the_size_dynamodb_charges(value: Value, size: int) -> None:
    """A value counts its name and what DynamoDB charges for its type."""
    assert item_size({"v": value}) == 1 + size


def test_an_item_is_the_sum_of_its_attributes() -> None:
    """Names count too, in UTF-8."""
    assert item_size({"PK": "a", "SK": "bc", "é": "d"}) == 3 + 4 + 3


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        (1, 2),
        10**38,
        -(10**38),
        "\ud800",
        {1: "a"},
        [{"k": bytearray(b"x")}],
    ],
    ids=repr,
)
def test_a_value_no_table_can_hold_is_refused_by_name(value: Value) -> None:
    """A value of an unknown type or beyond the limits is refused, naming its attribute."""
    with pytest.raises(InvalidRequest, match="'wrong'"):
        item_size({"fine": 1, "wrong": value})


def test_nesting_ends_where_dynamodb_ends_it() -> None:
    """31 lists around a value are stored, 32 are not."""
    value: Value = "x"
    for _ in range(31):
        value = [value]
    item_size({"v": value})
    with pytest.raises(InvalidRequest, match="nested"):
        item_size({"v": [value]})
