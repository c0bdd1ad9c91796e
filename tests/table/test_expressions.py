"""Conditions, updates and ranges as expressions."""

from __future__ import annotations

import pytest
from boto3.dynamodb.conditions import Attr, Size
from boto3.dynamodb.conditions import Key as SortKey

from mlflow_dynamodbstore.table.dynamodb.requests import add_placeholders
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.expressions import Expressions
from mlflow_dynamodbstore.table.update import Update


def condition(tree):
    expressions, request = Expressions(), {}
    request["text"] = expressions.condition(tree)
    add_placeholders(request, expressions)
    return request


def key_condition(where):
    expressions, request = Expressions(), {}
    request["text"] = expressions.key_condition("PK", "p", "SK", where)
    add_placeholders(request, expressions)
    return request


def test_names_are_sent_once_and_values_encoded():
    """The same attribute has one placeholder wherever it stands."""
    tree = Attr("ttl").not_exists() | (Attr("ttl").gt(5) & ~Attr("a").eq(1.5))
    assert condition(tree) == {
        "text": "(attribute_not_exists(#n0) OR (#n0 > :v0 AND (NOT #n1 = :v1)))",
        "ExpressionAttributeNames": {"#n0": "ttl", "#n1": "a"},
        "ExpressionAttributeValues": {
            ":v0": {"N": "5"},
            ":v1": {"B": b"\x01\xbf\xf8" + bytes(6)},
        },
    }


def test_paths_in_and_size():
    """Each step of a path has a placeholder, IN takes its values one by one."""
    tree = Attr("a.b[2].c").is_in(["x", "y"]) & Attr("l").size().between(1, 2)
    built = condition(tree)
    assert built["text"] == "(#n0.#n1[2].#n2 IN (:v0, :v1) AND size(#n3) BETWEEN :v2 AND :v3)"
    assert list(built["ExpressionAttributeNames"].values()) == ["a", "b", "c", "l"]


def test_attributes_may_be_compared_with_each_other():
    """The right side of a comparison may be an attribute too."""
    built = condition(Attr("a").lt(Attr("b")))
    assert built["text"] == "#n0 < #n1"
    assert "ExpressionAttributeValues" not in built


@pytest.mark.parametrize(
    "tree", [Size(Attr("a")), Attr("a").is_in([]), Attr("").exists(), Attr("[0]").exists()]
)
def test_half_a_condition_is_refused(tree):
    """What says nothing by itself never reaches the service."""
    with pytest.raises(InvalidRequest):
        condition(tree)


def test_a_prefix_is_sent_as_a_range():
    """``begins_with`` on a sort key travels as BETWEEN, which emulators answer without a scan."""
    built = key_condition(SortKey("SK").begins_with("R#"))
    assert built["text"] == "#n0 = :v0 AND #n1 BETWEEN :v1 AND :v2"
    assert built["ExpressionAttributeValues"][":v1"] == {"S": "R#"}
    assert built["ExpressionAttributeValues"][":v2"] == {"S": "R#\U0010ffff"}


def test_an_empty_prefix_is_no_condition():
    """Everything begins with the empty string, and no key may be empty."""
    assert key_condition(SortKey("SK").begins_with(""))["text"] == "#n0 = :v0"


def test_a_prefix_as_long_as_a_key_stays_a_prefix():
    """The end of the range may not be longer than a key can be."""
    built = key_condition(SortKey("SK").begins_with("x" * 1021))
    assert built["text"] == "#n0 = :v0 AND begins_with(#n1, :v1)"


@pytest.mark.parametrize(
    "where",
    [
        SortKey("lsi1sk").eq("a"),
        SortKey("SK").eq(1),
        Attr("SK").ne("a"),
        SortKey("SK").gt("a") & SortKey("SK").lt("b"),
        Attr("SK").contains("a"),
    ],
)
def test_only_one_range_of_the_sort_key(where):
    """A query's range is one comparison of its own sort key with text."""
    with pytest.raises(InvalidRequest):
        key_condition(where)


def test_an_update_in_all_its_parts():
    """Names with dots are names, not paths, and nothing is sent for empty parts."""
    expressions, request = Expressions(), dict[str, object]()
    update = Update(set={"a.b": "x"}, if_absent={"c": None}, add={"n": 2}, remove=("old",))
    text = expressions.update(update)
    add_placeholders(request, expressions)
    assert text == "SET #n0 = :v0, #n1 = if_not_exists(#n1, :v1) REMOVE #n3 ADD #n2 :v2"
    assert request["ExpressionAttributeNames"] == {
        "#n0": "a.b",
        "#n1": "c",
        "#n2": "n",
        "#n3": "old",
    }
    assert Expressions().update(Update()) == ""
