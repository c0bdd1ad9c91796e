"""Changing a named entity and all that belongs to it, one change after the other.

Every change of an entity, and of anything below it, raises the revision in META within the same
transaction, on condition that nobody else did meanwhile. So a decision made on what was read holds,
or is made again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.names import claims
from mlflow_dynamodbstore.shared.names.attributes import REVISION, VERSIONS_REVISION
from mlflow_dynamodbstore.shared.names.claims import (
    NamedPartition,
    check_first_write,
    is_live,
    unchanged,
)
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.table.contract import (
    MAX_TRANSACTION,
    MAX_TRANSACTION_BYTES,
    Delete,
    Patch,
    Put,
    Write,
)
from mlflow_dynamodbstore.table.errors import (
    ConditionFailed,
    ItemTooLarge,
    TransactionCancelled,
)
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item

ENTITIES_KEPT = 1_000
# What the transaction writes to META counts too, and an item is at most 400 KB.
ROOM_IN_BYTES = MAX_TRANSACTION_BYTES - 512 * 1024

P = TypeVar("P", bound=NamedPartition)


class NamedEntity(Protocol):
    """A model or an MCP server, as its META says."""

    @property
    def item(self) -> Item:
        """META itself."""

    @property
    def revision(self) -> int: ...


E = TypeVar("E", bound=NamedEntity)


@dataclass
class Change:
    """What a decision does: to META, and beside it in the same transaction.

    Of ``writes``, those beyond what a transaction holds follow right after it. ``known`` has the
    items of versions that were read, for META to carry copies of them.
    """

    set: Item = field(default_factory=dict)
    remove: list[str] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    touches_versions: bool = False
    known: dict[int, Item] = field(default_factory=dict)


Beside = Callable[[E, E, Change], Change]
"""From an entity before and after a change, and that change, to what else changes with it."""


class Revisions(Generic[P, E]):
    """The entities of one kind as seen last, and how they change.

    ``kind`` is what messages call them, ``beside`` what each change brings with it.
    """

    def __init__(
        self,
        table: Table,
        entity_of: Callable[[P, Item], E],
        kind: str,
        beside: Beside[E] | None = None,
    ):
        self._table = table
        self._entity_of = entity_of
        self._kind = kind
        self._beside = beside
        self._seen: BoundedCache[str, E] = BoundedCache(ENTITIES_KEPT, name="names")

    def find(self, place: P) -> E | None:
        """The entity at a place, or None."""
        return self.seen(place, self._table.get(place.key))

    def seen(self, place: P, meta: Item | None) -> E | None:
        """The entity that META describes, which is remembered; None where there is none."""
        if not is_live(meta):
            self.forget(place)
            return None
        return self.remembered(place, meta)

    def remembered(self, place: P, meta: Item) -> E:
        """The entity that META, which is no claim, describes."""
        entity = self._entity_of(place, meta)
        self._seen.put(place.pk, entity)
        return entity

    def forget(self, place: P) -> None:
        """Remember nothing of a place."""
        self._seen.forget(place.pk)

    # --- changing -------------------------------------------------------------------------------

    def change(
        self,
        place: P,
        decide: Callable[[E], Change | None],
        missing: Callable[[str], Exception],
    ) -> E:
        """Change the entity at a place, or something of it, and return it as it is then.

        ``decide`` makes a change of what it is given, or None when there is nothing to do; it
        raises ``MlflowException`` to refuse. The first decision is made on the META that was seen
        last. It costs nothing, and does no harm when it is outdated: the transaction is refused
        then, and brings the present one. For the same reason one that was never seen need not be
        read consistently, which is half the price. Raises ``TransactionCancelled`` when a condition
        of the decision's own writes does not hold.
        """
        entity = self._seen.get(place.pk)
        if entity is None:
            entity = self.seen(place, self._table.get(place.key, consistent=False))
        is_certain = False

        def attempt() -> E | TransactionCancelled:
            nonlocal entity, is_certain
            change = None
            if entity is not None:
                try:
                    change = decide(entity)
                except MlflowException:
                    if is_certain:
                        raise
            if change is None and not is_certain:
                entity, is_certain = self.find(place), True
                change = None if entity is None else decide(entity)
            if entity is None:
                raise missing(place.name)
            if change is None:
                return entity
            try:
                changed, in_one = self._commit(place, entity, change)
            except ConditionFailed as refused:
                entity, is_certain = self.seen(place, refused.old), True
                raise
            except TransactionCancelled as cancelled:
                return cancelled  # another try would not help: it is not META that was refused
            if in_one or not change.touches_versions:
                return changed
            # A version that was read between META and the last writes must be read again.
            return self.change(place, lambda _: Change(touches_versions=True), missing)

        result = optimistically(self._described(place), attempt)
        if isinstance(result, TransactionCancelled):
            raise result
        return result

    def _commit(self, place: P, entity: E, change: Change) -> tuple[E, bool]:
        """Do a change, and tell whether it took one transaction.

        Raises ``ConditionFailed`` when the entity has changed.
        """
        revision = entity.revision + 1
        counted = {REVISION: revision}
        if change.touches_versions:
            counted[VERSIONS_REVISION] = revision
        update = Update(set={**change.set, **counted}, remove=tuple(change.remove))
        writes = change.writes
        if self._beside is not None:
            more = self._beside(entity, self._entity_of(place, update.apply(entity.item)), change)
            update = Update(set={**update.set, **more.set}, remove=(*update.remove, *more.remove))
            writes = [*more.writes, *writes]
        together, after = fitting(writes)
        condition = unchanged(entity.item)
        if not together:
            self._table.update(place.key, update, condition=condition)
        else:
            self._transact([Patch(place.key, update, condition), *together])
            self._table.write(after)
        return self.remembered(place, update.apply(entity.item)), not after

    def _transact(self, writes: list[Write]) -> None:
        """Do writes; raises ``ConditionFailed`` where the first of them, META's, is refused."""
        try:
            self._table.transact(writes)
        except TransactionCancelled as cancelled:
            check_first_write(cancelled)
            if cancelled.too_large:
                raise ItemTooLarge("it holds more than fits into one item") from cancelled
            raise

    def _described(self, place: P) -> str:
        return f"{self._kind} '{place.name}'"

    # --- creating and removing ------------------------------------------------------------------

    def create(self, place: P, meta: Item, writes: list[Write]) -> E:
        """Write an entity whose name is free, and what belongs to it.

        Raises ``NameTakenError``.
        """
        together, after = fitting([Put(place.listing(meta)), *writes])
        first = Put(meta, condition=ABSENT)
        claims.when_free(self._table, place, lambda: self._transact([first, *together]))
        self._table.write(after)
        return self.remembered(place, meta)

    def remove(
        self,
        place: P,
        missing: Callable[[str], MlflowException],
        check: Callable[[E], None] = lambda _: None,
    ) -> None:
        """Remove an entity for good, unless ``check`` raises."""
        entity = self.find(place)

        def attempt() -> None:
            nonlocal entity
            if entity is None:
                raise missing(place.name)
            check(entity)
            try:
                claims.remove(self._table, place, entity.item)
            except ConditionFailed as refused:
                entity = self.seen(place, refused.old)
                raise

        optimistically(self._described(place), attempt)
        self.forget(place)


def fitting(writes: list[Write]) -> tuple[list[Write], list[Write]]:
    """The writes that fit into a transaction beside META's, and the others."""
    room = ROOM_IN_BYTES
    for n, write in enumerate(writes):
        room -= _bytes(write)
        if n == MAX_TRANSACTION - 1 or room < 0:
            return writes[:n], writes[n:]
    return writes, []


def _bytes(write: Write) -> int:
    if isinstance(write, Put):
        return item_size(write.item)
    return 0 if isinstance(write, Delete) else item_size(dict(write.update.set))
