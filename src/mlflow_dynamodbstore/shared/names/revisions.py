"""Changing a named thing and all that belongs to it, one change after the other.

Every change of a thing, and of anything below it, raises the revision in META within the same
transaction, on condition that nobody else did meanwhile. So a decision is made on what is known,
and holds or is made again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from boto3.dynamodb.conditions import ConditionBase
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.names import claims
from mlflow_dynamodbstore.shared.names.attributes import REVISION, VERSIONS_REVISION
from mlflow_dynamodbstore.shared.names.claims import (
    NamedPartition,
    OutdatedError,
    is_live,
    is_refused,
    old_of,
    unchanged,
)
from mlflow_dynamodbstore.table.contract import (
    MAX_TRANSACTION,
    MAX_TRANSACTION_BYTES,
    Delete,
    Patch,
    Put,
    Write,
)
from mlflow_dynamodbstore.table.errors import ConditionFailed, ItemTooLarge, TransactionCancelled
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item

KEPT = 1_000
# What the transaction writes to META counts too, and an item is at most 400 KB.
ROOM_IN_BYTES = MAX_TRANSACTION_BYTES - 512 * 1024

P = TypeVar("P", bound=NamedPartition)


class Thing(Protocol):
    """What META describes."""

    @property
    def item(self) -> Item:
        """META itself."""

    @property
    def revision(self) -> int: ...


T = TypeVar("T", bound=Thing)


@dataclass
class Change:
    """What a decision does: to META, and beside it in the same transaction.

    Of ``writes``, those beyond what a transaction holds follow right after it. ``known`` has the
    items of versions that were looked at, for META to carry copies of them.
    """

    set: Item = field(default_factory=dict)
    remove: list[str] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    touches_versions: bool = False
    known: dict[int, Item] = field(default_factory=dict)


Beside = Callable[[T, T, Change], Change]
"""From a thing as it is, as a change makes it, and that change, to what else changes with it."""


def _nothing(before: T, after: T, change: Change) -> Change:
    del before, after, change
    return Change()


class Revisions(Generic[P, T]):
    """The things of one kind, as seen last, and how they change.

    ``busy`` is the error for somebody who was outrun each time, ``beside`` what each change brings
    with it.
    """

    def __init__(
        self,
        table: Table,
        made_of: Callable[[P, Item], T],
        busy: Callable[[str], MlflowException],
        beside: Beside[T] = _nothing,
    ):
        self._table = table
        self._made_of = made_of
        self._busy = busy
        self._beside = beside
        self._known: BoundedCache[str, T] = BoundedCache(KEPT)

    def find(self, place: P) -> T | None:
        """What is at a place, or None."""
        return self.seen(place, self._table.get(place.key))

    def seen(self, place: P, meta: Item | None) -> T | None:
        """What META describes, which is remembered."""
        if meta is None or not is_live(meta):
            self.forget(place)
            return None
        return self.remembered(place, meta)

    def remembered(self, place: P, meta: Item) -> T:
        """What META describes, which is not a claim."""
        thing = self._made_of(place, meta)
        self._known.put(place.pk, thing)
        return thing

    def forget(self, place: P) -> None:
        self._known.forget(place.pk)

    # --- changing -------------------------------------------------------------------------------

    def change(
        self,
        place: P,
        decide: Callable[[T], Change | None],
        missing: Callable[[str], Exception],
    ) -> T:
        """Change what is at a place, or something of it, and return it as it is then.

        ``decide`` makes a change of what it is given, or None when there is nothing to do; it
        raises ``MlflowException`` to refuse. The first decision is made on the META that was seen
        last. It costs nothing, and does no harm when it is outdated: the transaction is refused
        then, and brings the real one. Therefore one that was never seen need not be read
        consistently either, which is half the price.
        """
        thing = self._known.get(place.pk)
        is_certain = False
        if thing is None:
            thing = self.seen(place, self._table.get(place.key, consistent=False))
        for _ in self._table.retry.attempts():
            change = None
            if thing is not None:
                try:
                    change = decide(thing)
                except MlflowException:
                    if is_certain:
                        raise
            if change is None and not is_certain:
                thing, is_certain = self.find(place), True
                change = None if thing is None else decide(thing)
            if thing is None:
                raise missing(place.name)
            if change is None:
                return thing
            try:
                done, in_one = self._commit(place, thing, change)
            except OutdatedError as refused:
                thing, is_certain = self.seen(place, refused.meta), True
            else:
                if in_one or not change.touches_versions:
                    return done
                # Whoever read a version between META and the last writes must read it again.
                return self.change(place, lambda _: Change(touches_versions=True), missing)
        raise self._busy(place.name)

    def _commit(self, place: P, thing: T, change: Change) -> tuple[T, bool]:
        """Do a change if the thing is still as it was, and tell whether it took one transaction.

        Raises ``OutdatedError``.
        """
        revision = thing.revision + 1
        counted = {REVISION: revision}
        if change.touches_versions:
            counted[VERSIONS_REVISION] = revision
        update = Update(set={**change.set, **counted}, remove=tuple(change.remove))
        more = self._beside(thing, self._made_of(place, update.apply(thing.item)), change)
        update = Update(set={**update.set, **more.set}, remove=(*update.remove, *more.remove))
        writes = [*more.writes, *change.writes]
        together, after = fitting(writes)
        condition = unchanged(thing.item)
        if not together:
            self._update_meta(place, update, condition)
        else:
            self._transact([Patch(place.key, update, condition), *together])
            self._table.write(after)
        return self.remembered(place, update.apply(thing.item)), not after

    def _update_meta(self, place: P, update: Update, condition: ConditionBase) -> None:
        try:
            self._table.update(place.key, update, condition=condition)
        except ConditionFailed as refused:
            raise OutdatedError(refused.old) from refused

    def _transact(self, writes: list[Write]) -> None:
        """Do writes of which the first is META's."""
        try:
            self._table.transact(writes)
        except TransactionCancelled as cancelled:
            if is_refused(cancelled, 0):
                raise OutdatedError(old_of(cancelled, 0)) from cancelled
            if any(reason and reason.code == "ItemTooLarge" for reason in cancelled.reasons):
                raise ItemTooLarge("it holds more than fits into one item") from cancelled
            raise

    # --- coming and going -----------------------------------------------------------------------

    def create(self, place: P, meta: Item, writes: list[Write]) -> T:
        """Write something whose name is free, and what belongs to it.

        Raises ``NameTakenError``.
        """
        together, after = fitting([Put(place.listing(meta)), *writes])
        first = Put(meta, condition=claims.nothing_there())
        for _ in self._table.retry.attempts():
            try:
                self._transact([first, *together])
            except OutdatedError as refused:
                claims.make_room(self._table, place, refused.meta)
            else:
                self._table.write(after)
                return self.remembered(place, meta)
        raise self._busy(place.name)

    def remove(
        self,
        place: P,
        missing: Callable[[str], MlflowException],
        check: Callable[[T], None] = lambda _: None,
    ) -> None:
        """Remove something for good, unless ``check`` raises."""
        thing = self.find(place)
        for _ in self._table.retry.attempts():
            if thing is None:
                raise missing(place.name)
            check(thing)
            try:
                claims.remove(self._table, place, thing.item)
            except OutdatedError as refused:
                thing = self.seen(place, refused.meta)
            else:
                self.forget(place)
                return
        raise self._busy(place.name)


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
