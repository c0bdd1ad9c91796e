"""A call that finds a partition full puts back what it has written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.errors import CollectionFull, TableError, Throttled
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.undo import UndoneIfFull
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Item, Key

ABSENT = Attr("PK").not_exists()


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    """A table whose partitions hold 5,000 bytes, with one item of value ``before``."""
    opened = Table(open_engine(f"dynamodb:///{tmp_path}/t.ddb?collection_limit=5000"))
    opened.put(item("old", "before"))
    yield opened
    opened.close()


def item(sk: str, value: str) -> Item:
    return {"PK": "p", "SK": sk, "value": value}


def values(table: Table) -> list[str | None]:
    found = (table.get(Key("p", sk)) for sk in ("old", "new", "newer"))
    return [None if one is None else str(one["value"]) for one in found]


def call(table: Table, error: type[TableError] | None) -> None:
    with UndoneIfFull():
        table.put(item("old", "after"))
        table.write([Put(item("new", "after"))])
        table.transact([Put(item("newer", "after"), condition=ABSENT)])
        if error is CollectionFull:
            table.put(item("large", "x" * 5_000))
        if error is not None:
            raise error


def test_what_is_replaced_comes_back_and_what_is_new_goes(table):
    with pytest.raises(CollectionFull):
        call(table, CollectionFull)
    assert values(table) == ["before", None, None]


@pytest.mark.parametrize("error", [None, Throttled])
def test_other_calls_are_not_undone(table, error):
    try:
        call(table, error)
    except Throttled:
        assert error is Throttled
    assert values(table) == ["after"] * 3


def test_a_part_that_succeeded_is_undone_with_the_whole(table):
    def whole() -> None:
        with UndoneIfFull():
            call(table, None)
            table.put(item("large", "x" * 5_000))

    with pytest.raises(CollectionFull):
        whole()
    assert values(table) == ["before", None, None]


def test_what_others_have_changed_since_stays(table):
    def whole() -> None:
        with UndoneIfFull():
            table.put(item("old", "after"))
            table.put(item("new", "after"))
            table.engine.apply(Put(item("old", "by others")))
            table.put(item("large", "x" * 5_000))

    with pytest.raises(CollectionFull):
        whole()
    assert values(table) == ["by others", None, None]


@pytest.mark.parametrize("is_changed", [False, True])
def test_an_item_of_many_attributes_is_undone(table, is_changed):
    """A condition cannot compare them all."""
    wide = {"PK": "p", "SK": "wide", **{f"a{n}": n for n in range(200)}}

    def whole() -> None:
        with UndoneIfFull():
            table.put(wide)
            if is_changed:
                table.update(Key("p", "wide"), Update(set={"a199": "of others"}))
            table.put(item("large", "x" * 5_000))

    with pytest.raises(CollectionFull):
        whole()
    assert (table.get(Key("p", "wide")) is not None) == is_changed
