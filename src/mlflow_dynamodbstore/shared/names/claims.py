"""Filling and emptying the partition of a named thing while nobody can see it.

A name is the key of a partition, so renaming moves every item, and that takes more than one
transaction. What readers go by is META: without it a model (or an MCP server) does not exist,
whatever else lies in its partition. Whoever fills or empties a partition puts a *claim* in META's
place. A claim holds the name until the work is done. One that was not renewed for a minute belonged
to somebody who is gone, and may be taken over by whoever needs the name; a partition taken over is
emptied.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Protocol

from boto3.dynamodb.conditions import Attr, ConditionBase

from mlflow_dynamodbstore.shared.names.attributes import REVISION, UID
from mlflow_dynamodbstore.table.contract import Delete, Page, Put, Query
from mlflow_dynamodbstore.table.errors import (
    ConditionFailed,
    TableError,
    TransactionCancelled,
    Unavailable,
)
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

CLAIM = "claim"
UNTIL = "until"
LEASE_SECONDS = 60
PAGE = 250


class NamedPartition(Protocol):
    """Where a named thing lies: in a partition of its own, and listed by a guard elsewhere."""

    @property
    def name(self) -> str: ...

    @property
    def workspace(self) -> str: ...

    @property
    def pk(self) -> str: ...

    @property
    def key(self) -> Key:
        """The key of META."""

    @property
    def guard(self) -> Item:
        """The item by which it is listed in its workspace."""

    def listing(self, meta: Item) -> Item:
        """The guard, with what it repeats of META."""

    def links(self, items: Iterable[Item]) -> list[Item]:
        """What other partitions hold because these items are in this one."""

    def words(self, table: Table) -> list[Item]:
        """The full-text entries of its name."""

    def words_left(self, table: Table) -> list[Key]:
        """The keys of those that are in the table."""

    def moved(self, item: Item, now: int | None) -> Item:
        """An item from another place as it is at this one."""

    def moved_meta(self, meta: Item, now: int | None) -> Item:
        """META from another place as it is at this one."""


class NameTakenError(Exception):
    """There is something live of this name; ``meta`` is its own item."""

    def __init__(self, meta: Item):
        super().__init__(meta["name"])
        self.meta = meta


class OutdatedError(Exception):
    """Something is not what it was when the change was decided; ``meta`` is what stands there."""

    def __init__(self, meta: Item | None):
        super().__init__()
        self.meta = meta


def is_live(meta: Item | None) -> bool:
    """Whether what stands in META's place is no claim."""
    return meta is not None and CLAIM not in meta


def unchanged(meta: Item) -> ConditionBase:
    """A condition on META: nothing below it has changed since it looked like this."""
    return Attr(REVISION).eq(meta[REVISION]) & Attr(UID).eq(meta[UID])


def nothing_there() -> ConditionBase:
    """A condition on META: nobody has the name, nor a claim on it."""
    return Attr("PK").not_exists()


class Claim:
    """The right to fill or empty one partition."""

    def __init__(self, table: Table, place: NamedPartition):
        self._table = table
        self._place = place
        self._token = secrets.token_hex(8)
        self._until = self._end()

    def item(self) -> Item:
        """What stands in META's place while the claim holds."""
        key = self._place.key
        place = {"name": self._place.name, "workspace": self._place.workspace}
        return {"PK": key.pk, "SK": key.sk, CLAIM: self._token, UNTIL: self._until, **place}

    def held(self) -> ConditionBase:
        """A condition on META: the claim is still ours."""
        return Attr(CLAIM).eq(self._token)

    def acquire(self) -> None:
        """Put the claim where nothing is. Raises ``NameTakenError``."""
        for _ in self._table.retry.attempts():
            try:
                self._table.put(self.item(), condition=nothing_there())
            except ConditionFailed as refused:
                make_room(self._table, self._place, refused.old)
                self._until = self._end()
            else:
                return
        raise Unavailable(f"the name {self._place.name!r} is being removed; try again in a minute")

    def take_over(self, other: Item) -> bool:
        """Put the claim in place of another; whether that one was still there."""
        try:
            self._table.put(self.item(), condition=Attr(CLAIM).eq(other[CLAIM]))
        except ConditionFailed:
            return False
        return True

    def renew(self) -> None:
        """Hold on for another minute, once a good part of this one has passed."""
        if self._until - self._table.clock() > LEASE_SECONDS / 2:
            return
        until = self._end()
        try:
            self._table.update(self._place.key, Update(set={UNTIL: until}), condition=self.held())
        except ConditionFailed as lost:
            raise Unavailable(
                f"the claim on the name {self._place.name!r} was lost to somebody else"
            ) from lost
        self._until = until

    def empty(self) -> None:
        """Remove everything in the partition, and then the claim itself."""
        self.clear()
        # Nobody can have entered the name for something new: the claim still holds it.
        self._table.write([Delete(key) for key in self._place.words_left(self._table)])
        try:
            self._table.delete(self._place.key, condition=self.held())
        except ConditionFailed:
            return  # taken over: whoever has it does the rest

    def clear(self) -> None:
        """Remove everything in the partition but the claim."""
        for page in pages(self._table, self._place):
            self.renew()
            links = [Delete(_key(link)) for link in self._place.links(page.items)]
            children = [Delete(_key(item)) for item in page.items]
            # Links first: they are found through the versions they lead to.
            self._table.write(links, then=children)

    def _end(self) -> int:
        return int(self._table.clock()) + LEASE_SECONDS


def make_room(table: Table, place: NamedPartition, standing: Item | None) -> None:
    """Empty a partition whose claim has run out. Raises ``NameTakenError`` for a live thing.

    A claim that holds is left alone: the caller waits and looks again.
    """
    if standing is None:
        return
    if is_live(standing):
        raise NameTakenError(standing)
    if standing[UNTIL] <= table.clock():
        claim = Claim(table, place)
        if claim.take_over(standing):
            claim.empty()


def remove(table: Table, place: NamedPartition, meta: Item) -> None:
    """Remove something for good; it is gone at once. Raises ``OutdatedError``."""
    claim = Claim(table, place)
    try:
        table.transact([Put(claim.item(), condition=unchanged(meta)), Delete(_key(place.guard))])
    except TransactionCancelled as cancelled:
        if not is_refused(cancelled, 0):
            raise
        raise OutdatedError(old_of(cancelled, 0)) from cancelled
    claim.empty()


def move(
    table: Table, source: NamedPartition, target: NamedPartition, now: int | None
) -> Item | None:
    """Move something to another name or workspace; readers see it at one place at a time.

    ``now`` becomes the time of the last change of a model and its versions. Returns the new
    META, or None when there is nothing at the source. Raises ``NameTakenError``.
    """
    claim = Claim(table, target)
    claim.acquire()
    try:
        meta = _copy_and_switch(table, source, target, claim, now)
    except TableError:
        _abandon(table, target, claim)
        raise
    if meta is None:
        _abandon(table, target, claim)
    return meta


def _abandon(table: Table, target: NamedPartition, claim: Claim) -> None:
    """Take the copies away again, unless the move has taken place after all.

    The answer to the last step may have been lost, and it may even be on its way still. Under
    another claim it can no longer succeed.
    """
    other = Claim(table, target)
    if other.take_over(claim.item()):
        other.empty()


def _copy_and_switch(
    table: Table, source: NamedPartition, target: NamedPartition, claim: Claim, now: int | None
) -> Item | None:
    for _ in table.retry.attempts():
        meta = table.get(source.key)
        if meta is None or not is_live(meta):
            return None
        _copy(table, source, target, claim, now)
        table.write([Put(item) for item in target.words(table)])
        leaving = Claim(table, source)
        moved = target.moved_meta(meta, now)
        try:
            table.transact(
                [
                    Put(moved, condition=claim.held()),
                    Put(target.listing(moved)),
                    Put(leaving.item(), condition=unchanged(meta)),
                    Delete(_key(source.guard)),
                ]
            )
        except TransactionCancelled as cancelled:
            if is_refused(cancelled, 0) or not is_refused(cancelled, 2):
                raise
            claim.clear()  # it changed while it was copied: once more
        else:
            leaving.empty()
            return moved
    raise Unavailable(f"{source.name!r} keeps changing while it is being moved")


def _copy(
    table: Table, source: NamedPartition, target: NamedPartition, claim: Claim, now: int | None
) -> None:
    for page in pages(table, source):
        claim.renew()
        copies = [target.moved(item, now) for item in page.items]
        # Links last: a partition that is emptied after a crash finds them through its versions.
        links = target.links(copies)
        table.write([Put(copy) for copy in copies], then=[Put(link) for link in links])


def pages(table: Table, place: NamedPartition) -> Iterator[Page]:
    """What lies in a partition beside META."""
    query = Query(place.pk, limit=PAGE)
    while True:
        page = table.query(query)
        yield Page([item for item in page.items if item["SK"] != place.key.sk], page.cursor)
        if page.cursor is None:
            return
        query = replace(query, cursor=page.cursor)


def is_refused(cancelled: TransactionCancelled, write: int) -> bool:
    """Whether the condition of one of the writes was to blame."""
    reason = cancelled.reasons[write]
    return reason is not None and reason.code == "ConditionFailed"


def old_of(cancelled: TransactionCancelled, write: int) -> Item | None:
    """What stood where a write of a cancelled transaction was to go."""
    reason = cancelled.reasons[write]
    return None if reason is None else reason.old


def _key(item: Item) -> Key:
    return Key(item["PK"], item["SK"])
