"""Versions of items: older ones are read and rewritten, newer ones are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.shared.mlflow_errors import as_mlflow_exception
from mlflow_dynamodbstore.table.contract import Patch, Put, Query, Scan
from mlflow_dynamodbstore.table.errors import ConditionFailed, NewerItem, TransactionCancelled
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.table.versions import Upgraded, Versions, as_stored, upgrade_of

KEY = Key("BOX#1", "LID#a")
OLD = {"PK": KEY.pk, "SK": KEY.sk, "colour": "red", "gsi1pk": "g", "gsi1sk": "g", "lsi1sk": "l"}
NEW = {**OLD, "v": 3, "colours": ["red"], "size": 1}


@pytest.fixture
def table(engine):
    """A table whose lids have changed their form twice."""
    versions = Versions({"BOX/LID": 3})

    @versions.upgrades("BOX/LID", 1)
    def many_colours(item):
        return {**item, "colours": [item["colour"]]} if "colour" in item else item

    @versions.upgrades("BOX/LID", 2)
    def sized(item):
        return {**item, "size": 1} if "colour" in item else item

    engine.schema = replace(MLFLOW_TABLE, versions=versions)
    yield Table(engine)
    engine.schema = MLFLOW_TABLE


def put_old(table, **more):
    table.engine.apply(Put({**OLD, **more}))


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.get(KEY),
        lambda t: t.get_many([KEY])[KEY],
        lambda t: t.query(Query(KEY.pk)).items[0],
        lambda t: t.query(Query(KEY.pk, index="LSI1")).items[0],
        lambda t: next(t.items(Query(KEY.pk))),
        lambda t: next(i for i in t.scan(Scan()).items if i["PK"] == KEY.pk),
        lambda t: t.update(KEY, Update(set={"size": 1}), returns="new"),
    ],
)
def test_an_old_item_is_read_in_the_newest_form(table, read):
    put_old(table)
    assert read(table) == NEW


def test_an_old_item_that_stands_in_the_way_is_shown_in_the_newest_form(table):
    put_old(table)
    free = Attr("PK").not_exists()
    with pytest.raises(ConditionFailed) as refused:
        table.put(dict(OLD), condition=free)
    assert refused.value.old == NEW
    assert table.write([Put(dict(OLD), condition=free)])[0].image == NEW
    with pytest.raises(TransactionCancelled) as cancelled:
        table.transact([Put(dict(OLD), condition=free)])
    (reason,) = cancelled.value.reasons
    assert reason is not None
    assert reason.old == NEW


def test_upgrades_begin_at_the_version_that_an_item_has(table):
    """What an item has already is not made again."""
    put_old(table, v=2, colours=["blue"])
    found = table.get(KEY)
    assert (found["colours"], found["size"], found["v"]) == (["blue"], 1, 3)


def test_writing_what_was_read_writes_the_newest_form(table):
    """As a whole, or by a change of attributes that knows what it has read."""
    put_old(table)
    found = table.get(KEY)
    assert as_stored(found) == OLD
    table.put({**found, "lid": "open"})
    assert table.engine.get(KEY) == {**NEW, "lid": "open"}
    put_old(table)
    table.update(KEY, Update(set={**upgrade_of(table.get(KEY)), "lid": "shut"}))
    assert table.engine.get(KEY) == {**NEW, "lid": "shut"}
    assert not isinstance(table.get(KEY), Upgraded)
    assert upgrade_of(table.get(KEY)) == {}


def test_a_blind_change_leaves_the_version_alone(table):
    """So that the item is still read as what it is."""
    put_old(table)
    table.write([Patch(KEY, Update(set={"lid": "open"}))])
    assert "v" not in table.engine.get(KEY)
    assert table.get(KEY) == {**NEW, "lid": "open"}


def test_keys_alone_are_not_upgraded(table):
    put_old(table)
    keys_only = Query(KEY.pk, keys_only=True)
    assert "colours" not in table.query(keys_only).items[0]
    assert "colours" not in table.query(Query("g", index="GSI1")).items[0]


def test_what_has_no_version_is_of_the_first(table):
    """Families that never changed write no version, and are read as they are."""
    item = {"PK": "BOX#1", "SK": "TOY#1"}
    table.put(item)
    assert table.get(Key("BOX#1", "TOY#1")) == item
    assert table.schema.versions.current("BOX/TOY") == 1


@pytest.mark.parametrize(("sk", "newest"), [("LID#a", 3), ("TOY#1", 1)])
def test_an_item_of_a_newer_release_is_refused_in_one_sentence(table, sk, newest):
    """Guessing at its form could destroy it."""
    table.engine.apply(Put({**OLD, "SK": sk, "v": 4}))
    with pytest.raises(NewerItem, match=rf"version 4, .* up to {newest}: upgrade") as refused:
        table.get(Key(KEY.pk, sk))
    assert as_mlflow_exception(refused.value).error_code == "INVALID_STATE"


def test_every_version_of_our_table_has_an_upgrade():
    """Each family is brought from any version to the one that is written today."""
    import mlflow_dynamodbstore.tracking.store  # noqa: F401 - gathers all of them

    versions = MLFLOW_TABLE.versions
    wanted = {(f, n) for f, newest in versions._current.items() for n in range(1, newest)}
    assert versions._upgrades.keys() == wanted
