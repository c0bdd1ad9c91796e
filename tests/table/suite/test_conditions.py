"""Every condition, on a write and as the filter of a query: both judge alike."""

from __future__ import annotations

import math

import pytest
from boto3.dynamodb.conditions import Attr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlflow_dynamodbstore.table.contract import Patch, Put, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from tests.table.suite.samples import item
from tests.table.suite.strategies import doubles, order_of

KEY = Key("p", "s")
ITEM = item(
    "p",
    "s",
    text="apple",
    empty="",
    n=5,
    big=10**37,
    f=2.5,
    raw=b"\x01\x02",
    yes=True,
    null=None,
    list=["a", 1, 2.5],
    map={"x": 1, "y": {"z": "deep"}, "l": [10, 20]},
)

TRUE = {
    "text = apple": Attr("text").eq("apple"),
    "empty = ''": Attr("empty").eq(""),
    "n = 5": Attr("n").eq(5),
    "big = 10**37": Attr("big").eq(10**37),
    "f = 2.5": Attr("f").eq(2.5),
    "raw = bytes": Attr("raw").eq(b"\x01\x02"),
    "yes = True": Attr("yes").eq(True),
    "null = None": Attr("null").eq(None),
    "list = list": Attr("list").eq(["a", 1, 2.5]),
    "map = map": Attr("map").eq({"l": [10, 20], "y": {"z": "deep"}, "x": 1}),
    "text != pear": Attr("text").ne("pear"),
    "text != 5": Attr("text").ne(5),
    "n != 5.0": Attr("n").ne(5.0),
    "absent != 1": Attr("absent").ne(1),
    "text < b": Attr("text").lt("b"),
    "text <= apple": Attr("text").lte("apple"),
    "text > a": Attr("text").gt("a"),
    "text >= apple": Attr("text").gte("apple"),
    "n < 10": Attr("n").lt(10),
    "n > -10": Attr("n").gt(-10),
    "n >= 5": Attr("n").gte(5),
    "big > 9e36": Attr("big").gt(9 * 10**36),
    "f < 2.6": Attr("f").lt(2.6),
    "f > -inf": Attr("f").gt(-math.inf),
    "f < nan": Attr("f").lt(math.nan),
    "raw < longer": Attr("raw").lt(b"\x01\x02\x00"),
    "raw > shorter": Attr("raw").gt(b"\x01"),
    "n between": Attr("n").between(5, 5),
    "text between": Attr("text").between("aa", "b"),
    "f between": Attr("f").between(-0.0, 1e300),
    "text begins_with": Attr("text").begins_with("app"),
    "text begins_with ''": Attr("text").begins_with(""),
    "text contains": Attr("text").contains("ppl"),
    "list contains a": Attr("list").contains("a"),
    "list contains 1": Attr("list").contains(1),
    "list contains 2.5": Attr("list").contains(2.5),
    "n in": Attr("n").is_in([4, 5]),
    "text in mixed": Attr("text").is_in([1, "apple", None]),
    "exists": Attr("null").exists(),
    "not exists": Attr("absent").not_exists(),
    "type S": Attr("text").attribute_type("S"),
    "type N": Attr("n").attribute_type("N"),
    "type BOOL": Attr("yes").attribute_type("BOOL"),
    "type NULL": Attr("null").attribute_type("NULL"),
    "type L": Attr("list").attribute_type("L"),
    "type M": Attr("map").attribute_type("M"),
    "size text": Attr("text").size().eq(5),
    "size empty": Attr("empty").size().lt(1),
    "size list": Attr("list").size().between(3, 3),
    "size map": Attr("map").size().gte(3),
    "map.x": Attr("map.x").eq(1),
    "map.y.z": Attr("map.y.z").begins_with("de"),
    "map.l[1]": Attr("map.l[1]").gt(19),
    "list[0]": Attr("list[0]").eq("a"),
    "list[9] absent": Attr("list[9]").not_exists(),
    "map.none absent": Attr("map.none").not_exists(),
    "and": Attr("n").eq(5) & Attr("text").eq("apple"),
    "or": Attr("n").eq(6) | Attr("text").eq("apple"),
    "not": ~Attr("n").eq(6),
    "not comparison with absent": ~Attr("absent").gt(1),
    "and of or": (Attr("n").eq(6) | Attr("n").eq(5)) & ~(Attr("f").gt(3.0) | Attr("null").eq(1)),
    "or of and": Attr("n").eq(6) & Attr("text").eq("apple") | Attr("f").eq(2.5),
    "not not": ~(~Attr("n").exists()),
}

FALSE = {
    "text = pear": Attr("text").eq("pear"),
    "n = '5'": Attr("n").eq("5"),
    "n = 5.0": Attr("n").eq(5.0),
    "null = 0": Attr("null").eq(0),
    "null = False": Attr("null").eq(False),
    "empty = None": Attr("empty").eq(None),
    "raw = text": Attr("raw").eq("\x01\x02"),
    "text != apple": Attr("text").ne("apple"),
    "list in other order": Attr("list").eq([1, "a", 2.5]),
    "list with other types": Attr("list").eq(["a", 1.0, 2.5]),
    "map with less": Attr("map").eq({"x": 1}),
    "absent < 1": Attr("absent").lt(1),
    "absent >= ''": Attr("absent").gte(""),
    "f >= nan": Attr("f").gte(math.nan),
    "n between above": Attr("n").between(6, 9),
    "text begins_with b": Attr("text").begins_with("b"),
    "n begins_with": Attr("n").begins_with("5"),
    "absent begins_with": Attr("absent").begins_with(""),
    "text contains x": Attr("text").contains("x"),
    "list contains part": Attr("list").contains("b"),
    "list contains 1.0": Attr("list").contains(1.0),
    "n contains": Attr("n").contains("5"),
    "n in": Attr("n").is_in([4, 5.0, "5"]),
    "absent in": Attr("absent").is_in([1]),
    "exists": Attr("absent").exists(),
    "not exists": Attr("null").not_exists(),
    "type": Attr("text").attribute_type("N"),
    "map.x.y": Attr("map.x.y").exists(),
    "text[0]": Attr("text[0]").exists(),
    "and": Attr("n").eq(5) & Attr("text").eq("pear"),
    "or": Attr("n").eq(6) | Attr("text").eq("pear"),
    "not": ~Attr("n").eq(5),
    "not exists and": Attr("absent").not_exists() & Attr("n").gt(5),
}

# Comparisons between values of different types, or with one that is not there.
ACROSS_TYPES = {
    "yes = 1": Attr("yes").eq(1),
    "absent = None": Attr("absent").eq(None),
    "text < 9": Attr("text").lt(9),
    "n > 4.0": Attr("n").gt(4.0),
    "f > 1": Attr("f").gt(1),
    "n between strings": Attr("n").between("0", "9"),
    "size of a number": Attr("n").size().gt(0),
    "size of nothing": Attr("absent").size().gte(0),
}

CASES = [
    *(pytest.param(c, True, id=name) for name, c in TRUE.items()),
    *(pytest.param(c, False, id=f"not: {name}") for name, c in FALSE.items()),
    *(
        pytest.param(c, False, id=f"not: {name}", marks=pytest.mark.requires("typed_conditions"))
        for name, c in ACROSS_TYPES.items()
    ),
    pytest.param(
        Attr("raw").begins_with(b"\x01"),
        True,
        id="raw begins_with",
        marks=pytest.mark.requires("binary_prefixes"),
    ),
]


def holds_on_write(engine, condition) -> bool:
    try:
        engine.apply(Patch(KEY, Update(set={"judged": 1}), condition))
    except ConditionFailed:
        return False
    return True


@pytest.mark.parametrize(("condition", "wanted"), CASES)
def test_condition(engine, condition, wanted):
    """A condition holds or not, alike on a write, as a filter and on both engines."""
    engine.apply(Put(ITEM))
    assert holds_on_write(engine, condition) is wanted
    assert bool(engine.query(Query("p", filter=condition)).items) is wanted


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=doubles, other=doubles)
def test_doubles_compare_by_one_total_order(engine, one, other):
    """Any two doubles compare: -0.0 below 0.0, NaN beyond infinity, never against whole numbers."""
    engine.apply(Put(item("p", "s", f=one)))
    assert holds_on_write(engine, Attr("f").lt(other)) is (order_of(one) < order_of(other))
    assert holds_on_write(engine, Attr("f").gte(other)) is (order_of(one) >= order_of(other))
    assert holds_on_write(engine, Attr("f").eq(other)) is (order_of(one) == order_of(other))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=st.integers(-(10**37), 10**37), other=st.integers(-(10**37), 10**37))
def test_whole_numbers_compare_exactly(engine, one, other):
    """Whole numbers compare by value, to their last digit."""
    engine.apply(Put(item("p", "s", n=one)))
    assert holds_on_write(engine, Attr("n").lt(other)) is (one < other)
    assert holds_on_write(engine, Attr("n").between(other, other + 1)) is (
        other <= one <= other + 1
    )
