"""Conditions are judged on an item as DynamoDB judges them.

The answers in the tables below were taken from dynoxide, whose behaviour is checked against AWS.
"""

from __future__ import annotations

import math
import struct

import pytest
from boto3.dynamodb.conditions import (
    And,
    Attr,
    Between,
    ConditionBase,
    Equals,
    Key,
    LessThan,
    NotEquals,
)
from hypothesis import given
from hypothesis import strategies as st

from mlflow_dynamodbstore.table.binary import to_binary
from mlflow_dynamodbstore.table.conditions import attribute_names, holds, predicate
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.values import Item

A = Attr
ITEM: Item = {
    "PK": "a",
    "SK": "b",
    "s": "abc",
    "n": 5,
    "f": 2.5,
    "b": b"\x00ab",
    "t": True,
    "z": None,
    "l": [1, "x", None, [1]],
    "m": {"k": 1, "d": {"e": "v"}},
    "e": "",
}

ANSWERS: list[tuple[ConditionBase, bool]] = [
    # An absent attribute, or one of another type, is unequal to everything and in no order.
    (A("x").eq(1), False),
    (A("x").ne(1), True),
    (~A("x").eq(1), True),
    (A("x").eq(None), False),
    (A("x").eq(A("y")), False),
    (NotEquals(A("x"), A("y")), True),
    (NotEquals(A("x"), A("n")), True),
    (A("x").lt(1), False),
    (A("n").ne("5"), True),
    (A("n").ne(5), False),
    (A("n").eq(5.0), False),
    (A("n").lt("6"), False),
    (A("n").lt(b"6"), False),
    (A("n").lt(6.0), False),
    (A("n").gt(1.0), False),
    (A("n").lt(True), False),
    (A("t").lt(5), False),
    (A("t").lte(A("t")), False),
    (A("l").lte(A("l")), False),
    (A("n").gt(A("t")), False),
    # Order and equality within one type.
    (A("n").eq(5), True),
    (A("n").gte(5), True),
    (A("n").lte(5), True),
    (A("n").gt(5), False),
    (A("n").lt(6), True),
    (A("s").lt("abd"), True),
    (A("s").lt("Z"), False),
    (A("s").eq("abc"), True),
    (A("f").eq(2.5), True),
    (A("f").lt(2.6), True),
    (A("f").gt(-1.0), True),
    (A("b").eq(b"\x00ab"), True),
    (A("b").lt(b"\x01"), True),
    (A("z").eq(None), True),
    (A("z").ne(None), False),
    (A("t").eq(1), False),
    (A("t").eq(True), True),
    (A("n").eq(A("m.k")), False),
    (A("n").gt(A("m.k")), True),
    (Equals(5, A("n")), True),
    (LessThan(1, A("n")), True),
    (A("m").eq({"d": {"e": "v"}, "k": 1}), True),
    (A("m").eq({"d": {"e": "v"}, "k": 1.0}), False),
    (A("m").eq({"d": {"e": "v"}}), False),
    (A("l").eq([1, "x", None, [1]]), True),
    (A("l").eq([True, "x", None, [1]]), False),
    # BETWEEN
    (A("x").between(1, 2), False),
    (A("n").between(1, 9), True),
    (A("n").between(5, 5), True),
    (A("n").between(9, 1), False),
    (A("n").between("1", "9"), False),
    (A("n").between(1, "9"), False),
    # begins_with
    (A("s").begins_with("a"), True),
    (A("s").begins_with(""), True),
    (A("e").begins_with(""), True),
    (A("s").begins_with(5), False),
    (A("s").begins_with(b"a"), False),
    (A("b").begins_with(b"\x00"), True),
    (A("n").begins_with("5"), False),
    (A("x").begins_with("5"), False),
    # contains
    (A("s").contains("b"), True),
    (A("s").contains(""), True),
    (A("s").contains(b"b"), False),
    (A("s").contains(5), False),
    (A("l").contains(1), True),
    (A("l").contains(True), False),
    (A("l").contains("x"), True),
    (A("l").contains(None), True),
    (A("l").contains([1]), True),
    (A("l").contains(7), False),
    (A("m").contains("k"), False),
    (A("n").contains(5), False),
    (A("x").contains(5), False),
    # IN
    (A("n").is_in([1, 5]), True),
    (A("n").is_in(["5"]), False),
    (A("n").is_in([True, 5.0]), False),
    (A("x").is_in([1]), False),
    (A("n").is_in(list(range(100))), True),
    # Existence and paths.
    (A("n").exists(), True),
    (A("z").exists(), True),
    (A("x").exists(), False),
    (A("x").not_exists(), True),
    (A("m.k").exists(), True),
    (A("m.d.e").eq("v"), True),
    (A("m.x").exists(), False),
    (A("l[0]").eq(1), True),
    (A("l[3][0]").eq(1), True),
    (A("l[9]").exists(), False),
    (A("s.k").exists(), False),
    (A("s[0]").exists(), False),
    (A("m.k.z").ne(1), True),
    # attribute_type
    (A("z").attribute_type("NULL"), True),
    (A("n").attribute_type("N"), True),
    (A("f").attribute_type("N"), False),
    (A("f").attribute_type("B"), True),
    (A("b").attribute_type("B"), True),
    (A("t").attribute_type("BOOL"), True),
    (A("l").attribute_type("L"), True),
    (A("m").attribute_type("M"), True),
    (A("s").attribute_type("S"), True),
    (A("x").attribute_type("N"), False),
    (A("n").attribute_type("SS"), False),
    # size
    (A("s").size().eq(3), True),
    (A("b").size().eq(4), True),
    (A("f").size().eq(9), True),
    (A("l").size().eq(4), True),
    (A("m").size().eq(2), True),
    (A("e").size().eq(0), True),
    (A("n").size().eq(1), False),
    (A("t").size().eq(1), False),
    (A("x").size().eq(0), False),
    (NotEquals(A("n").size(), 0), True),
    (NotEquals(A("x").size(), 0), True),
    (A("s").size().between(1, 3), True),
    (A("s").size().lt("a"), False),
    # Combination.
    (A("n").eq(5) & A("n").eq(5), True),
    (A("n").eq(5) & A("s").eq("q"), False),
    (A("n").eq(5) & A("s").eq("q") | A("n").exists(), True),
    (~(A("n").eq(5) & A("s").eq("q")), True),
    (Key("SK").eq("b"), True),
]


def _label(value: object) -> str | None:
    if not isinstance(value, ConditionBase):
        return None
    parts = [_label(v) or getattr(v, "name", repr(v)) for v in value.get_expression()["values"]]
    return f"{value.expression_operator}({', '.join(parts)[:60]})"


@pytest.mark.parametrize(("condition", "expected"), ANSWERS, ids=_label)
def test_answers_are_those_of_dynamodb(condition: ConditionBase, expected: bool) -> None:
    """Each condition has the answer that DynamoDB gives."""
    assert holds(condition, ITEM) is expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (A("x").ne(1), True),
        (A("x").not_exists(), True),
        (A("x").eq(1), False),
        (~A("x").eq(1), True),
        (A("PK").exists(), False),
        (A("PK").not_exists() | A("ttl").lte(5), True),
    ],
    ids=_label,
)
@pytest.mark.parametrize("absent", [None, {}])
def test_an_absent_item_has_no_attributes(
    condition: ConditionBase, expected: bool, absent: Item | None
) -> None:
    """An item that is not there is judged as one without attributes."""
    assert holds(condition, absent) is expected


def test_the_size_of_text_counts_utf16_units() -> None:
    """``size`` of a string is its length in UTF-16 units."""
    assert holds(A("v").size().eq(1), {"v": "é"})
    assert holds(A("v").size().eq(2), {"v": "😀"})


def test_not_a_number_is_above_infinity_and_minus_zero_below_zero() -> None:
    """Floats follow the order of their bits, so that every double has its place."""
    assert holds(A("v").gt(math.inf), {"v": math.nan})
    assert holds(A("v").eq(math.nan), {"v": math.nan})
    assert holds(A("v").lt(0.0), {"v": -0.0})
    assert not holds(A("v").eq(0.0), {"v": -0.0})
    assert holds(A("v").lt(-1e308), {"v": -math.inf})


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_binaries_keep_the_order_of_floats(a: float, b: float) -> None:
    """Two floats compare as their binaries do."""
    if a < b:
        assert to_binary(a) < to_binary(b)
    if struct.pack(">d", a) == struct.pack(">d", b):
        assert to_binary(a) == to_binary(b)


@given(st.text(), st.text())
def test_text_is_ordered_by_its_utf8_bytes(a: str, b: str) -> None:
    """Strings compare by their UTF-8 bytes."""
    assert holds(A("v").lt(b), {"v": a}) is (a.encode() < b.encode())


@pytest.mark.parametrize(
    "condition",
    [
        A("n").is_in([]),
        A("n").is_in(list(range(101))),
        A("n").eq({1, 2}),
        A("n").size(),
        A("[0]").eq(1),
        And(A("n").eq(1), Between(A("n"), 1, {2})),
    ],
    ids=_label,
)
def test_a_condition_that_makes_no_sense_is_refused(condition: ConditionBase) -> None:
    """A condition that DynamoDB would not take is an invalid request, whatever the item."""
    with pytest.raises(InvalidRequest):
        predicate(condition)


def test_names_of_a_condition_are_found_at_every_depth() -> None:
    """The attributes a condition looks at include those of its parts, sizes and both sides."""
    condition = (A("a").eq(A("b")) | ~A("c.x").exists()) & A("d[1]").size().gt(3)
    assert attribute_names(condition) == {"a", "b", "c", "d"}
