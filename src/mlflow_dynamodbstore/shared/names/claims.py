"""Filling and emptying the partition of a named entity while readers cannot see it.

A name is the key of a partition, so renaming moves every item, and that takes more than one
transaction. Readers go by META: without it a model (or an MCP server) does not exist, even if its
partition has other items. A process that fills or empties a partition puts a *claim* in META's
place, which holds the name until the work is done. It renews the claim; one that was not renewed
for a minute belonged to a process that died. A process that needs the name takes such a claim over
and empties the partition.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Protocol, TypeGuard

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.names.attributes import REVISION, UID
from mlflow_dynamodbstore.shared.optimistic import Outdated, optimistically
from mlflow_dynamodbstore.table.contract import Delete, Put, Query
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
    """Where a named entity lies: in a partition of its own, and listed by a guard elsewhere."""

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

    def text_entries(self, table: Table) -> list[Item]:
        """The full-text entries of its name."""

    def stored_text_entries(self, table: Table) -> list[Key]:
        """The keys of those that are in the table."""

    def moved(self, item: Item, now: int | None) -> Item:
        """An item from another place as it is at this one."""

    def moved_meta(self, meta: Item, now: int | None) -> Item:
        """META from another place as it is at this one."""


class NameTakenError(Exception):
    """Something live has this name; ``meta`` is its own item."""

    def __init__(self, meta: Item):
        super().__init__(meta["name"])
        self.meta = meta


def is_live(meta: Item | None) -> TypeGuard[Item]:
    """Whether there is a META, and not a claim in its place."""
    return meta is not None and CLAIM not in meta


def unchanged(meta: Item) -> ConditionBase:
    """A condition on META: nothing of it or below it has changed since it was read."""
    return Attr(REVISION).eq(meta[REVISION]) & Attr(UID).eq(meta[UID])


class Claim:
    """The right to fill or empty one partition."""

    def __init__(self, table: Table, place: NamedPartition):
        self._table = table
        self._place = place
        self._token = secrets.token_hex(8)
        self._until = self._end()

    def item(self) -> Item:
        """The item in META's place while the claim holds."""
        key = self._place.key
        place = {"name": self._place.name, "workspace": self._place.workspace}
        return {"PK": key.pk, "SK": key.sk, CLAIM: self._token, UNTIL: self._until, **place}

    def held(self) -> ConditionBase:
        """A condition on META: the claim is still ours."""
        return Attr(CLAIM).eq(self._token)

    def acquire(self) -> None:
        """Claim a name that is free, or soon will be. Raises ``NameTakenError``."""
        when_free(self._table, self._place, self._put)

    def _put(self) -> None:
        self._until = self._end()
        self._table.put(self.item(), condition=ABSENT)

    def take_over(self, other: Item) -> bool:
        """Put the claim in place of another; whether that one was still there."""
        try:
            self._table.put(self.item(), condition=Attr(CLAIM).eq(other[CLAIM]))
        except ConditionFailed:
            return False
        return True

    def renew(self) -> None:
        """Extend the claim by a minute, once half of the last one has passed."""
        if self._until - self._table.clock() > LEASE_SECONDS / 2:
            return
        until = self._end()
        try:
            self._table.update(self._place.key, Update(set={UNTIL: until}), condition=self.held())
        except ConditionFailed as refused:
            raise self.lost() from refused
        self._until = until

    def lost(self) -> Unavailable:
        """The error for a claim that another process has taken over."""
        return Unavailable(f"this process has lost the claim on the name {self._place.name!r}")

    def empty(self) -> None:
        """Remove everything in the partition, and then the claim itself."""
        self.clear()
        # The claim still holds the name, so these are not the entries of something new.
        entries = self._place.stored_text_entries(self._table)
        self._table.write([Delete(key) for key in entries])
        with suppress(ConditionFailed):  # the process that took the claim over does the rest
            self._table.delete(self._place.key, condition=self.held())

    def clear(self) -> None:
        """Remove everything in the partition but the claim."""
        key_of = self._table.schema.key_of
        for items in _pages(self._table, self._place):
            self.renew()
            links = [Delete(key_of(link)) for link in self._place.links(items)]
            # Links first: they are found through the versions they lead to.
            self._table.write(links, then=[Delete(key_of(item)) for item in items])

    def _end(self) -> int:
        return int(self._table.clock()) + LEASE_SECONDS


def when_free(table: Table, place: NamedPartition, write: Callable[[], None]) -> None:
    """Do a write that is refused while there is a claim or META, and wait for a claim to go.

    ``write`` raises ``ConditionFailed`` to be done again. Raises ``NameTakenError``.
    """
    for _ in table.retry.attempts():
        try:
            return write()
        except ConditionFailed as refused:
            empty_if_abandoned(table, place, refused.old)
    raise Unavailable(f"the name {place.name!r} is being removed; try again in a minute")


def empty_if_abandoned(table: Table, place: NamedPartition, meta: Item | None) -> None:
    """Empty a partition whose claim has run out; leave one whose claim holds.

    Raises ``NameTakenError`` for what is live.
    """
    if is_live(meta):
        raise NameTakenError(meta)
    if meta is not None and meta[UNTIL] <= table.clock():
        claim = Claim(table, place)
        if claim.take_over(meta):
            claim.empty()


def remove(table: Table, place: NamedPartition, meta: Item) -> None:
    """Remove something for good; readers see it gone at once.

    Raises ``ConditionFailed`` when META has changed.
    """
    claim = Claim(table, place)
    guard = Delete(table.schema.key_of(place.guard))
    try:
        table.transact([Put(claim.item(), condition=unchanged(meta)), guard])
    except TransactionCancelled as cancelled:
        check_first_write(cancelled)
        raise
    claim.empty()


def check_first_write(cancelled: TransactionCancelled) -> None:
    """Raise ``ConditionFailed`` where the first write of a transaction, META's, was refused."""
    reason = cancelled.reasons[0]
    if reason is not None and cancelled.refused(0):
        raise ConditionFailed(old=reason.old) from cancelled


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
        moved = optimistically(
            repr(source.name), lambda: _copy_and_switch(table, source, target, claim, now)
        )
    except (TableError, MlflowException):
        _abandon(table, target, claim)
        raise
    if moved is None:
        _abandon(table, target, claim)
    return moved


def _abandon(table: Table, target: NamedPartition, claim: Claim) -> None:
    """Remove the copies again, unless the move has taken place after all.

    The answer to its last step may have been lost, or the step may still arrive: under another
    claim it can no longer succeed.
    """
    other = Claim(table, target)
    if other.take_over(claim.item()):
        other.empty()


def _copy_and_switch(
    table: Table, source: NamedPartition, target: NamedPartition, claim: Claim, now: int | None
) -> Item | None:
    """Copy everything and make the copy visible; raises ``Outdated`` when the source changed."""
    meta = table.get(source.key)
    if not is_live(meta):
        return None
    for items in _pages(table, source):
        claim.renew()
        copies = [target.moved(item, now) for item in items]
        # Links last: after a crash they are found through the versions, and removed with them.
        links = target.links(copies)
        table.write([Put(copy) for copy in copies], then=[Put(link) for link in links])
    table.write([Put(item) for item in target.text_entries(table)])
    leaving = Claim(table, source)
    moved = target.moved_meta(meta, now)
    try:
        table.transact(
            [
                Put(moved, condition=claim.held()),
                Put(target.listing(moved)),
                Put(leaving.item(), condition=unchanged(meta)),
                Delete(table.schema.key_of(source.guard)),
            ]
        )
    except TransactionCancelled as cancelled:
        if cancelled.refused(0):
            raise claim.lost() from cancelled
        if not cancelled.refused(2):
            raise
        claim.clear()
        raise Outdated from cancelled
    leaving.empty()
    return moved


def _pages(table: Table, place: NamedPartition) -> Iterator[list[Item]]:
    """Everything in a partition but META."""
    query = Query(place.pk, limit=PAGE)
    while True:
        page = table.query(query)
        yield [item for item in page.items if item["SK"] != place.key.sk]
        if page.cursor is None:
            return
        query = replace(query, cursor=page.cursor)
