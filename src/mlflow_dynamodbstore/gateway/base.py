"""What the parts of the gateway share: finding things, changing them together, and errors.

**Changing.** Whatever depends on several items is read, decided, and written in one transaction
whose conditions say that what was read still holds; refused, it is read and decided again. An
item that others refer to counts those who do (``uses``), or counts up whenever somebody begins to
(``revision``), so that it can be deleted on condition that nobody does, or nobody new.

**Reading.** What belongs together is found by following references from item to item. A store
remembers what it found last time and asks for all of it at once; the answer is followed again, so
that the memory saves requests and is never believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import (
    INVALID_PARAMETER_VALUE,
    RESOURCE_ALREADY_EXISTS,
    RESOURCE_DOES_NOT_EXIST,
)
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

T = TypeVar("T")

REVISION = "revision"
USES = "uses"
STARTS_KEPT = 1_000

Links = Callable[[Item], Iterable[Key]]
"""Tells which items an item refers to."""


class GatewayItems:
    """The ground the gateway's modules stand on."""

    def __init__(self, context: Context) -> None:
        self.table = context.table
        self._followed: BoundedCache[Key, tuple[Key, ...]] = BoundedCache(STARTS_KEPT)

    # --- reading --------------------------------------------------------------------------------

    def follow(self, start: Key, links: Links) -> dict[Key, Item]:
        """An item and all that it leads to; empty when it is not there."""
        items: dict[Key, Item] = {}
        asked: set[Key] = set()
        wanted = {start, *(self._followed.get(start) or ())}
        while wanted:
            asked |= wanted
            items.update(self.table.get_many(wanted))
            reached, leads_to = _reach(start, items, links)
            wanted = leads_to - asked
        self._followed.put(start, tuple(reached))
        return {key: items[key] for key in reached}

    def named_by(self, guard: Key, owner: Callable[[Item], Key]) -> Item | None:
        """What has a name, found by the guard of the name."""
        found = self.follow(guard, lambda item: [owner(item)] if is_at(guard, item) else [])
        return next((item for key, item in found.items() if key != guard), None)

    # --- changing -------------------------------------------------------------------------------

    def update_found(self, key: Key, update: Update, missing: MlflowException) -> Item:
        """Change an item that must be there, and return it as it is then."""
        try:
            item = self.table.update(key, update, condition=PRESENT, returns="new")
        except ConditionFailed as refused:
            raise missing from refused
        assert item is not None
        return item


def _reach(start: Key, items: Mapping[Key, Item], links: Links) -> tuple[list[Key], set[Key]]:
    """The items that are reached from a start, and all keys that they lead to."""
    reached: dict[Key, None] = {}
    leads_to: set[Key] = set()
    ahead = [start]
    while ahead:
        key = ahead.pop()
        if key in reached or key not in items:
            continue
        reached[key] = None
        following = list(links(items[key]))
        leads_to.update(following)
        ahead += following
    return list(reached), leads_to


def is_at(key: Key, item: Item) -> bool:
    """Whether this is the item at a key."""
    return (item["PK"], item["SK"]) == key


def made(by: str | None) -> Item:
    """When and by whom something new was made."""
    now = get_current_time_millis()
    return {"created_at": now, "updated_at": now, "created_by": by, "updated_by": by}


def later(item: Item) -> int:
    """The time of a change: after the last one even when both fall into one millisecond."""
    return max(int(get_current_time_millis()), int(item["updated_at"]) + 1)


def check_one_of(**given: object) -> None:
    """Refuse two ways to name a thing at once, and none."""
    if sum(value is not None for value in given.values()) != 1:
        raise MlflowException(
            f"Exactly one of {' or '.join(given)} must be provided", INVALID_PARAMETER_VALUE
        )


def not_found(entity: str, **named: object) -> MlflowException:
    """There is no such thing in the active workspace."""
    how = ", ".join(f"{name}='{value}'" for name, value in named.items())
    return MlflowException(f"{entity} not found ({how})", RESOURCE_DOES_NOT_EXIST)


def exists_already(what: str) -> MlflowException:
    """Something cannot be made twice."""
    return MlflowException(what, RESOURCE_ALREADY_EXISTS)
