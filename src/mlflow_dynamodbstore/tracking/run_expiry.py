"""Giving what belongs to a run the expiry of the run.

That is everything below it but its history, its log, the links to its datasets, and the RANK and
FTS items that its last summary gave rise to. The history has an expiry of its own, and so have the
items of the log that are settled.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.places import RunPlace, run_place_of
from mlflow_dynamodbstore.shared.policies import Rules
from mlflow_dynamodbstore.table.contract import Patch
from mlflow_dynamodbstore.table.errors import Damaged
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import TTL, Item
from mlflow_dynamodbstore.tracking import summaries
from mlflow_dynamodbstore.tracking.log_entries import AT, SETTLED, read_log
from mlflow_dynamodbstore.tracking.records import SEALED, RunContents

_logger = logging.getLogger(__name__)

RESTORING = "restoring"
"""Attribute of a deleted run: the token of a call that is taking the expiry from its items."""


def date_run(table: Table, run: Item, ttl: int | None, rules: Rules) -> None:
    """Give what belongs to a run this expiry, or another one that the run itself gets meanwhile.

    A call that restores or deletes the run at the same time may have dated these items first, so
    the run is read again afterwards.
    """
    redate_run(table, run, ttl, rules)
    _follow(table, run_place_of(run), ttl, rules)


def date_children(table: Table, run: RunPlace, ttl: int, rules: Rules) -> None:
    """As :func:`date_run`, for what was written below a run while it was deleted."""
    table.redate(run.pk, _below(run), ttl)
    _redate_log(table, run, ttl)
    _follow(table, run, ttl, rules)


def redate_run(
    table: Table, run: Item, ttl: int | None, rules: Rules, below: Sequence[Item] | None = None
) -> None:
    """Give what belongs to a run this expiry, or none; history keeps its own.

    ``below`` are the items below the run but its history, if they have been read.
    """
    place = run_place_of(run)
    contents = _published(table, run)
    ranges: list[Range] = []
    others: list[Item] = []
    if below is None:
        ranges += run_keys.run_children_without_history(place.run_id)
    else:
        others += below
    if contents is not None:
        keys = summaries.derived_keys(place.pk, place.run_id, contents, rules)
        others += [summaries.derived_item(key).item for key in keys]
    if run["state"] != SEALED or contents is None or contents.datasets:
        ranges.append(experiment_keys.dataset_links(place.run_id))
    table.redate(place.pk, ranges, ttl, others)
    if run["state"] != SEALED:
        _redate_log(table, place, ttl)


def _redate_log(table: Table, run: RunPlace, ttl: int | None) -> None:
    """Give the log of a run this expiry, or none; others may write to it meanwhile."""
    dated = Update(remove=(TTL,)) if ttl is None else Update(set={TTL: ttl})
    unsettled = Attr(AT).exists() & Attr(SETTLED).not_exists()
    table.write(
        [
            Patch(table.schema.key_of(item), dated, unsettled)
            for item in read_log(table, run).items
            if SETTLED not in item and item.get(TTL) != ttl
        ]
    )


def _published(table: Table, run: Item) -> RunContents | None:
    """What a run's last summary says; None when there is none that can be read."""
    try:
        return summaries.published(table, run)
    except Damaged as error:
        # A run can be deleted nevertheless; cleanup removes the entries it leaves.
        _logger.warning("the search entries of a run keep their expiry: %s", error)
        return None


def _follow(table: Table, run: RunPlace, ttl: int | None, rules: Rules) -> None:
    """Give what belongs to a run the expiry that the run has, until that is the one given."""
    while (now := table.get(run.key)) is not None and (wanted := _expiry_of_children(now)) != ttl:
        redate_run(table, now, wanted, rules)
        ttl = wanted


def _below(run: RunPlace) -> Sequence[Range]:
    """The ranges of all that belongs to a run and expires with it, but for search entries."""
    links = experiment_keys.dataset_links(run.run_id)
    return (*run_keys.run_children_without_history(run.run_id), links)


def _expiry_of_children(run: Item) -> int | None:
    """When the items of a run expire; never while it is active or being restored."""
    expiry: int | None = None if RESTORING in run else run.get(TTL)
    return expiry
