"""Giving the items of a run the expiry of the run."""

from __future__ import annotations

from mlflow_dynamodbstore.keys import metric_log as log_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.shared.places import run_id_of
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import TTL, Item
from mlflow_dynamodbstore.tracking.records import SEALED

RESTORING = "restoring"
"""Attribute of a deleted run: the token of a call that is taking the expiry from its items."""


def date_children(table: Table, run: Item, ttl: int | None) -> None:
    """Give the items of a run this expiry, or another one that the run itself gets meanwhile.

    A call that restores or deletes the run at the same time may have dated these items first, so
    the run is read again afterwards.
    """
    while True:
        redate_children(table, run, ttl)
        now = table.get(table.schema.key_of(run))
        if now is None or (wanted := _expiry_of_children(now)) == ttl:
            return
        run, ttl = now, wanted


def redate_children(table: Table, run: Item, ttl: int | None) -> None:
    """Give a run's items this expiry, or none; history keeps its own."""
    run_id = run_id_of(run)
    ranges = run_keys.run_children_without_history(run_id)
    if run["state"] != SEALED:
        ranges += (log_keys.run_log(run_id),)
    table.redate(run["PK"], ranges, ttl)


def _expiry_of_children(run: Item) -> int | None:
    """When the items of a run expire; never while it is active or being restored."""
    expiry: int | None = None if RESTORING in run else run.get(TTL)
    return expiry
