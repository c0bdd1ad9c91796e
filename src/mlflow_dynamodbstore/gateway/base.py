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

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from boto3.dynamodb.conditions import Attr
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import (
    INVALID_PARAMETER_VALUE,
    RESOURCE_ALREADY_EXISTS,
    RESOURCE_DOES_NOT_EXIST,
    TEMPORARILY_UNAVAILABLE,
)
from mlflow.store.tracking._secret_cache import (
    _DEFAULT_CACHE_MAX_SIZE,
    _DEFAULT_CACHE_TTL,
    SECRETS_CACHE_MAX_SIZE_ENV_VAR,
    SECRETS_CACHE_TTL_ENV_VAR,
    SecretCache,
)
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.tracking.lookups import Recent, TrackingBase

T = TypeVar("T")

REVISION = "revision"
USES = "uses"
STARTS_KEPT = 1_000

Links = Callable[[Item], Iterable[Key]]
"""Tells which items an item refers to."""


class GatewayBase(TrackingBase):
    """The ground the gateway's modules stand on."""

    _secret_cache: SecretCache | None = None

    if TYPE_CHECKING:

        def _note_workspace(self, workspace: str) -> None:
            """In ``tracking/workspace_mode.py``."""

    def _open(self, table: Table, artifact_root_uri: str) -> None:
        super()._open(table, artifact_root_uri)
        self._followed: Recent[Key, tuple[Key, ...]] = Recent(STARTS_KEPT, float("inf"))

    # --- memory of decrypted configurations, which MLflow's server reads ------------------------

    @property
    def secret_cache(self) -> SecretCache:
        """MLflow's own encrypted memory of endpoint configurations."""
        if self._secret_cache is None:
            self._secret_cache = SecretCache(
                ttl_seconds=int(os.environ.get(SECRETS_CACHE_TTL_ENV_VAR, _DEFAULT_CACHE_TTL)),
                max_size=int(
                    os.environ.get(SECRETS_CACHE_MAX_SIZE_ENV_VAR, _DEFAULT_CACHE_MAX_SIZE)
                ),
            )
        return self._secret_cache

    def _invalidate_secret_cache(self) -> None:
        """Forget all configurations; for whatever may have changed one."""
        if self._secret_cache is not None:
            self._secret_cache.clear()

    # --- reading --------------------------------------------------------------------------------

    def _follow(self, start: Key, links: Links) -> dict[Key, Item]:
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

    def _named_by(self, guard: Key, owner: Callable[[Item], Key]) -> Item | None:
        """What has a name, found by the guard of the name."""
        found = self._follow(guard, lambda item: [owner(item)] if is_at(guard, item) else [])
        return next((item for key, item in found.items() if key != guard), None)

    # --- changing -------------------------------------------------------------------------------

    def _update_found(self, key: Key, update: Update, missing: MlflowException) -> Item:
        """Change an item that must be there, and return it as it is then."""
        try:
            item = self.table.update(key, update, condition=Attr("PK").exists(), returns="new")
        except ConditionFailed as refused:
            raise missing from refused
        assert item is not None
        return item

    def _decide(self, what: str, attempt: Callable[[], T]) -> T:
        """Read, decide and write, again and again while somebody else was faster."""
        for _ in self.table.retry.attempts():
            try:
                return attempt()
            except ConditionFailed:
                continue
            except TransactionCancelled as cancelled:
                if not is_refused(cancelled):
                    raise
        raise MlflowException(
            f"{what} is being changed by others all the time; try again.", TEMPORARILY_UNAVAILABLE
        )


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


def is_refused(cancelled: TransactionCancelled, operation: int | None = None) -> bool:
    """Whether a transaction was cancelled by a condition, of one operation or of any."""
    reasons = cancelled.reasons if operation is None else [cancelled.reasons[operation]]
    return any(reason is not None and reason.code == "ConditionFailed" for reason in reasons)


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
