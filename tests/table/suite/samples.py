"""Small items and walks that the suite's files share."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace

from mlflow_dynamodbstore.table.contract import Engine, Outcome, Put, Query, Write
from mlflow_dynamodbstore.table.errors import Refusal, TransactionCancelled
from mlflow_dynamodbstore.table.values import Item, Key, Value, same_value


def item(pk: str, sk: str, /, **attributes: Value) -> Item:
    """An item with these keys and attributes."""
    return {"PK": pk, "SK": sk, **attributes}


def fill(engine: Engine, items: Iterable[Item]) -> None:
    """Write items, and see that each was written."""
    waiting: list[Write] = [Put(one) for one in items]
    for outcome in engine.apply_many(waiting):
        assert outcome == Outcome("applied")


def walk(engine: Engine, query: Query) -> list[Item]:
    """All items of a query, page after page."""
    found: list[Item] = []
    while True:
        page = engine.query(query)
        found += page.items
        if page.cursor is None:
            return found
        query = replace(query, cursor=page.cursor)


def token() -> str:
    """A token that no transaction has used."""
    return uuid.uuid4().hex


def refusal(error: TransactionCancelled, operation: int) -> Refusal:
    """Why an operation of a transaction was refused, which it must have been."""
    reason = error.reasons[operation]
    assert reason is not None
    return reason


def sort_keys(items: Iterable[Item]) -> list[str]:
    return [str(one["SK"]) for one in items]


def keys_of(items: Iterable[Item]) -> list[Key]:
    return [Key(str(one["PK"]), str(one["SK"])) for one in items]


def assert_same(found: Value, wanted: Value) -> None:
    """Equal in value and type, floats bit for bit."""
    assert same_value(found, wanted), f"found {found!r}, wanted {wanted!r}"
