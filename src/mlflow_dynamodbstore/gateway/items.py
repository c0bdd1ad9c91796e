"""What the gateway's parts share: reading items with those they refer to, changes, and errors.

**Changes.** A change that depends on several items reads them, decides, and writes one transaction
whose conditions say that what was read still holds. When it is refused, it reads and decides again.
An item that others refer to counts the references (``uses``), or counts up with each new one
(``revision``), so that it is deleted only when nothing refers to it, or nothing new.

**Reads.** Items that belong together are found by following references. A store remembers which
items it reached from a start, and asks for all of them in one request the next time. It follows the
references in the answer again: an outdated memory costs requests, but never a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.exceptions import MlflowException
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.refusals import invalid, not_found
from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

REVISION = "revision"
USES = "uses"
STARTS_KEPT = 1_000

References = Callable[[Item], Iterable[Key]]
"""Tells which items an item refers to."""


class GatewayItems:
    """Reading items together with all that they refer to."""

    def __init__(self, context: Context) -> None:
        self.table = context.table
        self._reached: BoundedCache[Key, tuple[Key, ...]] = BoundedCache(STARTS_KEPT)

    def follow(self, start: Key, references: References) -> dict[Key, Item]:
        """An item and all that are reached from it; empty when it does not exist."""
        items: dict[Key, Item] = {}
        asked: set[Key] = set()
        wanted = {start, *(self._reached.get(start) or ())}
        while wanted:
            asked |= wanted
            items.update(self.table.get_many(wanted))
            reached, referred_to = _reach(start, items, references)
            wanted = referred_to - asked
        self._reached.put(start, tuple(reached))
        return {key: items[key] for key in reached}

    def find_by_guard(self, guard: Key, owner_of: Callable[[Item], Key]) -> Item | None:
        """The item that owns a name, found through the guard of the name."""
        found = self.follow(guard, lambda item: [owner_of(item)] if is_at(guard, item) else [])
        return next((item for key, item in found.items() if key != guard), None)


def _reach(
    start: Key, items: Mapping[Key, Item], references: References
) -> tuple[list[Key], set[Key]]:
    """The keys of the items reached from a start, and all keys that these items refer to."""
    reached: dict[Key, None] = {}
    referred_to: set[Key] = set()
    ahead = [start]
    while ahead:
        key = ahead.pop()
        if key in reached or key not in items:
            continue
        reached[key] = None
        following = list(references(items[key]))
        referred_to.update(following)
        ahead += following
    return list(reached), referred_to


def is_at(key: Key, item: Item) -> bool:
    """Whether this is the item at a key."""
    return (item["PK"], item["SK"]) == key


def update_existing(table: Table, key: Key, update: Update, missing: MlflowException) -> Item:
    """Update an item and return it. Raises ``missing`` when it does not exist."""
    try:
        item = table.update(key, update, condition=PRESENT, returns="new")
    except ConditionFailed as refused:
        raise missing from refused
    assert item is not None
    return item


def new_guard(key: Key, **owner: str) -> Put:
    """The write of a guard, refused when the name is taken; ``owner`` is the id of its owner."""
    return Put({"PK": key.pk, "SK": key.sk, **owner}, condition=ABSENT)


def unchanged(item: Item) -> ConditionBase:
    """A condition on an item that has a revision: it is as it was read."""
    return Attr(REVISION).eq(item[REVISION])


def new_item(key: Key, by: str | None) -> Item:
    """A new item: its key, and when and by whom it is created."""
    now = get_current_time_millis()
    times = {"created_at": now, "updated_at": now}
    return {"PK": key.pk, "SK": key.sk, **times, "created_by": by, "updated_by": by}


def update_time(before: Item) -> int:
    """The time of an update: later than the last one, even within one millisecond."""
    return max(int(get_current_time_millis()), int(before["updated_at"]) + 1)


def check_given(**given: object) -> None:
    """Refuse None where MLflow's columns do."""
    for name, value in given.items():
        if value is None:
            raise invalid(f"Missing value for required parameter '{name}'.")


def check_one_of(**given: object) -> None:
    """Refuse a call that names an entity in two ways, or in none."""
    if sum(value is not None for value in given.values()) != 1:
        raise invalid(f"Exactly one of {' or '.join(given)} must be provided")


def no_such(entity: str, **named: object) -> MlflowException:
    """The error for an entity that the active workspace does not have."""
    how = ", ".join(f"{name}='{value}'" for name, value in named.items())
    return not_found(f"{entity} not found ({how})")
