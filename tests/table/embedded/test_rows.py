"""What stands in a row: an item comes back from it whole, and its size is true."""

from __future__ import annotations

import sqlite3

import msgpack
import pytest

from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.sizes import item_size
from tests.table.embedded.opened import KEY, item


def stored_size(path):
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT size FROM items").fetchone()[0]


@pytest.mark.parametrize("before", [None, 7, 1_700_000_000])
@pytest.mark.parametrize("after", [None, 1_700_000_001])
def test_redating_keeps_the_size_true(embedded, path, before, after):
    """Pages are cut by the sizes in the rows, so a change of expiry changes them too."""
    whole = item(text="x" * 50)
    embedded.apply(Put(whole if before is None else {**whole, "ttl": before}))
    embedded.redate("p", [("s", "s")], after)
    expected = whole if after is None else {**whole, "ttl": after}
    assert embedded.get(KEY) == expected
    assert stored_size(path) == item_size(expected)


def test_redating_what_is_not_there_makes_nothing(embedded):
    """An item that was removed meanwhile does not come back."""
    embedded.redate("p", [("s", "s")], 7)
    assert embedded.get(KEY) is None


def test_a_body_that_repeats_key_and_expiry_is_read(embedded, path):
    """The first files had the whole item in the body; its expiry there counts for nothing."""
    embedded.apply(Put(item(n=1, ttl=7)))
    body = msgpack.packb(item(n=1, ttl=7))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE items SET body = ?", (body,))
    assert embedded.get(KEY) == item(n=1, ttl=7)
    embedded.redate("p", [("s", "s")], None)
    assert embedded.get(KEY) == item(n=1)
