"""Changing attributes of an item."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Patch, Put
from mlflow_dynamodbstore.table.errors import ConditionFailed, InvalidRequest
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from tests.table.suite.samples import assert_same, item

KEY = Key("p", "s")


def test_set_creates_the_item(engine):
    """Patching an absent item creates it with its key and the attributes set."""
    engine.apply(Patch(KEY, Update(set={"a": 1})))
    assert engine.get(KEY) == item("p", "s", a=1)


@pytest.mark.requires("empty_updates")
def test_an_empty_update_creates_a_bare_item(engine):
    """A patch that changes nothing still creates an absent item, and leaves a present one."""
    engine.apply(Patch(KEY, Update()))
    assert engine.get(KEY) == item("p", "s")
    engine.apply(Put(item("p", "s", a=1)))
    engine.apply(Patch(KEY, Update()))
    assert engine.get(KEY) == item("p", "s", a=1)


def test_set_keeps_other_attributes(engine):
    """Attributes that a patch does not name stay as they were."""
    engine.apply(Put(item("p", "s", a=1, b={"x": [1.5]})))
    engine.apply(Patch(KEY, Update(set={"a": "new", "c": None})))
    assert_same(engine.get(KEY), item("p", "s", a="new", b={"x": [1.5]}, c=None))


def test_if_absent_keeps_what_is_there(engine):
    """``if_absent`` writes an attribute once; a null that is there counts as there."""
    engine.apply(Put(item("p", "s", null=None)))
    engine.apply(Patch(KEY, Update(if_absent={"a": 1, "null": 1})))
    engine.apply(Patch(KEY, Update(if_absent={"a": 2})))
    assert engine.get(KEY) == item("p", "s", a=1, null=None)


def test_add_counts_from_zero(engine):
    """``add`` begins at zero and takes negative and very large amounts."""
    engine.apply(Patch(KEY, Update(add={"n": 5})))
    engine.apply(Patch(KEY, Update(add={"n": -7, "m": 10**30})))
    assert engine.get(KEY) == item("p", "s", n=-2, m=10**30)


@pytest.mark.parametrize("value", ["text", 1.5, None, True, [1], {"a": 1}, b"1"])
def test_add_to_anything_but_a_whole_number_is_refused(engine, value):
    """Adding to a value that is not a whole number is an invalid request and changes nothing."""
    engine.apply(Put(item("p", "s", n=value)))
    with pytest.raises(InvalidRequest):
        engine.apply(Patch(KEY, Update(add={"n": 1})))
    assert_same(engine.get(KEY), item("p", "s", n=value))


def test_remove_takes_attributes_away(engine):
    """``remove`` takes attributes away; one that is not there is no error."""
    engine.apply(Put(item("p", "s", a=1, b=2)))
    engine.apply(Patch(KEY, Update(remove=("a", "never"))))
    assert engine.get(KEY) == item("p", "s", b=2)


def test_all_kinds_of_change_at_once(engine):
    """Assignments, defaults, additions and removals are applied together."""
    engine.apply(Put(item("p", "s", a=1, n=1, gone=1, kept=1)))
    engine.apply(
        Patch(
            KEY,
            Update(set={"a": 2}, if_absent={"kept": 9, "fresh": 9}, add={"n": 1}, remove=("gone",)),
        )
    )
    assert engine.get(KEY) == item("p", "s", a=2, n=2, kept=1, fresh=9)


def test_returns_old_and_new(engine):
    """A patch returns nothing, the item before it or the item after it, as asked."""
    assert engine.apply(Patch(KEY, Update(add={"n": 1}))) is None
    old = engine.apply(Patch(KEY, Update(add={"n": 1}), returns="old"))
    new = engine.apply(Patch(KEY, Update(add={"n": 1}), returns="new"))
    assert (old, new) == (item("p", "s", n=1), item("p", "s", n=3))


@pytest.mark.requires("no_old_image")
def test_a_created_item_has_no_old_image(engine):
    """The old image of an item that a patch creates is None."""
    assert engine.apply(Patch(KEY, Update(set={"a": 1}), returns="old")) is None


def test_refused_patch_changes_nothing(engine):
    """A patch whose condition fails changes nothing, creates nothing and carries the item."""
    engine.apply(Put(item("p", "s", a=1)))
    with pytest.raises(ConditionFailed) as refused:
        engine.apply(Patch(KEY, Update(set={"a": 2}), Attr("a").gt(1)))
    assert refused.value.old == item("p", "s", a=1)
    with pytest.raises(ConditionFailed) as refused:
        engine.apply(Patch(Key("p", "absent"), Update(set={"a": 2}), Attr("PK").exists()))
    assert refused.value.old is None
    assert engine.get(Key("p", "absent")) is None


NAMES = ["name", "size", "ttl_", "a-b", "a b", "a.b", "#x", ":y", "[0]", "größe", "📈", "_w2"]


@pytest.mark.parametrize("name", NAMES)
def test_any_text_names_an_attribute(engine, name):
    """An attribute may be called anything, DynamoDB's own words and signs too."""
    engine.apply(Patch(KEY, Update(set={name: 1})))
    engine.apply(Patch(KEY, Update(add={name: 1}, if_absent={name + "2": 5})))
    assert engine.get(KEY) == item("p", "s", **{name: 2, name + "2": 5})
    engine.apply(Patch(KEY, Update(remove=(name,))))
    assert engine.get(KEY) == item("p", "s", **{name + "2": 5})


@pytest.mark.parametrize("name", ["PK", "SK"])
def test_key_attributes_cannot_be_changed(engine, name):
    """A patch may not touch the key of its item."""
    engine.apply(Put(item("p", "s", a=1)))
    for update in (Update(set={name: "x"}), Update(remove=(name,))):
        with pytest.raises(InvalidRequest):
            engine.apply(Patch(KEY, update))
    assert engine.get(KEY) == item("p", "s", a=1)


def test_an_attribute_may_be_named_once(engine):
    """An update that names an attribute twice is refused."""
    for update in (
        Update(set={"a": 1}, add={"a": 1}),
        Update(set={"a": 1}, remove=("a",)),
        Update(if_absent={"a": 1}, set={"a": 2}),
    ):
        with pytest.raises(InvalidRequest):
            engine.apply(Patch(KEY, update))
    assert engine.get(KEY) is None


def test_concurrent_additions_all_count(engine):
    """Additions from many threads are all there in the end."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: engine.apply(Patch(KEY, Update(add={"n": 1}))), range(200)))
    assert engine.get(KEY) == item("p", "s", n=200)
