"""Leases: names that one holder has at a time, each until a moment that its holder puts off.

A lease is one item. It is taken by one conditional write, so of several only one gets it. A holder
that is lost keeps a lease until its end and no longer. Hosts compare the end with their own clocks,
so a lease must last much longer than clocks differ: seconds, not milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from boto3.dynamodb.conditions import Attr, ConditionBase

from mlflow_dynamodbstore.keys import jobs as job_keys
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.values import TTL, Item, Key

KEPT_SECONDS = 24 * 3600
"""How long the item of a lease stays after its end."""


@dataclass(frozen=True)
class Lease:
    """Who holds a name, from when to when, in milliseconds."""

    name: str
    holder: str
    acquired: int
    until: int


class Leases:
    """The leases of a table."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.table = context.table

    def acquire(
        self, name: str, holder: str, seconds: float, *, instead_of: Lease | None = None
    ) -> Lease | None:
        """Take a name that nobody else holds; None if somebody does.

        A holder may take its own name again. ``instead_of`` is a lease that the caller knows to be
        void before its end.
        """
        free = ABSENT | Attr("until").lt(self.context.now_ms()) | Attr("holder").eq(holder)
        if instead_of is not None:
            free |= _is(instead_of)
        now = self.context.now_ms()
        lease = Lease(name, holder, now, now + int(seconds * 1000))
        return lease if self._put(lease, free) else None

    def renew(self, lease: Lease, seconds: float) -> Lease | None:
        """The same lease with a later end; None if it is no longer the caller's."""
        renewed = Lease(
            lease.name,
            lease.holder,
            lease.acquired,
            self.context.now_ms() + int(seconds * 1000),
        )
        return renewed if self._put(renewed, _is(lease)) else None

    def release(self, lease: Lease) -> bool:
        """Give a name up; False if another holds it by now."""
        try:
            self.table.delete(_key(lease.name), condition=_is(lease))
        except ConditionFailed:
            return False
        return True

    def find(self, name: str) -> Lease | None:
        """The lease of a name, also one that has ended."""
        item = self.table.get(_key(name))
        if item is None:
            return None
        return Lease(name, str(item["holder"]), int(item["acquired"]), int(item["until"]))

    def _put(self, lease: Lease, condition: ConditionBase) -> bool:
        try:
            self.table.put(_item(lease), condition=condition)
        except ConditionFailed:
            return False
        return True


def _key(name: str) -> Key:
    return job_keys.lease_key(name)


def _item(lease: Lease) -> Item:
    key = _key(lease.name)
    return {
        "PK": key.pk,
        "SK": key.sk,
        "name": lease.name,
        "holder": lease.holder,
        "acquired": lease.acquired,
        "until": lease.until,
        TTL: lease.until // 1000 + KEPT_SECONDS,
    }


def _is(lease: Lease) -> ConditionBase:
    """The item is this lease, renewed or not."""
    return Attr("holder").eq(lease.holder) & Attr("acquired").eq(lease.acquired)
