"""What stands in a row: an item comes back from it whole, and its size is true."""

from __future__ import annotations

import sqlite3

import msgpack
import pytest

from mlflow_dynamodbstore.table.contract import MAX_ITEM_BYTES, Patch, Put
from mlflow_dynamodbstore.table.embedded import layout
from mlflow_dynamodbstore.table.errors import ItemTooLarge
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.update import Update
from tests.table.embedded.opened import KEY, item


def stored_size(path):
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT size FROM items").fetchone()[0]


EXPIRIES = [None, 0, 7, -7, 100, 1_700_000_000, -1_203_000, 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("before", EXPIRIES)
@pytest.mark.parametrize("after", [None, 1_700_000_001, -50])
@pytest.mark.parametrize("which", [([("s", "s")], []), ([], ["s", "t"])], ids=["range", "keys"])
def test_redating_keeps_the_size_true(embedded, path, before, after, which):
    """Pages are cut by the sizes in the rows, so a change of expiry changes them too."""
    whole = item(text="x" * 50)
    embedded.apply(Put(whole if before is None else {**whole, "ttl": before}))
    embedded.redate("p", *which, after)
    expected = whole if after is None else {**whole, "ttl": after}
    assert embedded.get(KEY) == expected
    assert stored_size(path) == item_size(expected)


def test_redating_what_is_not_there_makes_nothing(embedded):
    """An item that was removed meanwhile does not come back."""
    embedded.redate("p", [("s", "s")], [], 7)
    assert embedded.get(KEY) is None


def test_a_body_that_repeats_key_and_expiry_is_read(embedded, path):
    """The first files had the whole item in the body; its expiry there counts for nothing."""
    embedded.apply(Put(item(n=1, ttl=7)))
    body = msgpack.packb(item(n=1, ttl=7))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE items SET body = ?", (body,))
    assert embedded.get(KEY) == item(n=1, ttl=7)
    embedded.redate("p", [("s", "s")], [], None)
    assert embedded.get(KEY) == item(n=1)


def test_an_item_that_an_early_release_stored_larger_can_still_be_changed(embedded, monkeypatch):
    """Releases up to 0.2 did not count copies in indexes; a patch keeps the rule of 400 KB."""
    with monkeypatch.context() as early:
        early.setattr(layout, "check_size", lambda *_: None)
        embedded.apply(Put(item(lsi1sk="a", body="x" * 250_000)))
    embedded.apply(Patch(KEY, Update(set={"deleted": 1})))
    (outcome,) = embedded.apply_many([Patch(KEY, Update(set={"deleted": 2}))])
    assert outcome.status == "applied"
    assert embedded.get(KEY)["deleted"] == 2
    with pytest.raises(ItemTooLarge):
        embedded.apply(Patch(KEY, Update(set={"more": "x" * 200_000})))
    embedded.apply(Patch(KEY, Update(remove=("body",))))
    with pytest.raises(ItemTooLarge):
        embedded.apply(Patch(KEY, Update(set={"body": "x" * 250_000})))


def test_copies_are_counted_to_the_byte(embedded):
    """The entry of LSI1 is the whole item, those of the others are keys."""
    half = MAX_ITEM_BYTES // 2
    bare = item(lsi1sk="a", body="")
    embedded.apply(Put({**bare, "body": "x" * (half - item_size(bare))}))
    with pytest.raises(ItemTooLarge, match="copies in local indexes have 409602 bytes"):
        embedded.apply(Put({**bare, "body": "x" * (half + 1 - item_size(bare))}))
    keys = item(lsi2sk="a", lsi3sk="bc", gsi1pk="d", gsi1sk="e", body="")
    entries = item_size(item(lsi2sk="a")) + item_size(item(lsi3sk="bc"))
    fits = "x" * (MAX_ITEM_BYTES - entries - item_size(keys))
    embedded.apply(Put({**keys, "body": fits}))
    with pytest.raises(ItemTooLarge):
        embedded.apply(Put({**keys, "body": fits + "x"}))
