"""Giving the items of a run the expiry of the run."""

from __future__ import annotations

from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.shared.places import RunPlace
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import TTL, Item

RESTORING = "restoring"
"""Attribute of a deleted run: the token of a call that is taking the expiry from its items."""


def date_children(table: Table, run: RunPlace, ttl: int | None) -> None:
    """Give the items of a run this expiry, or another one that the run itself gets meanwhile.

    A call that restores or deletes the run at the same time may have dated these items first, so
    the run is read again afterwards.
    """
    while True:
        redate_children(table, run, ttl)
        now = table.get(run.key)
        if now is None or (wanted := _expiry_of_children(now)) == ttl:
            return
        ttl = wanted


def redate_children(table: Table, run: RunPlace, ttl: int | None) -> None:
    """Give a run's items this expiry, or none; history keeps its own."""
    table.redate(run.pk, run_keys.run_children_without_history(run.run_id), ttl)


def _expiry_of_children(run: Item) -> int | None:
    """When the items of a run expire; never while it is active or being restored."""
    expiry: int | None = None if RESTORING in run else run.get(TTL)
    return expiry
