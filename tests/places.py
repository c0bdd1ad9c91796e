"""Where things lie in a table, for tests that look at items: in any volume of their experiment."""

from __future__ import annotations

import os
from collections.abc import Sequence

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.places import RunPlace, TracePlace
from mlflow_dynamodbstore.shared.run_lookup import places_by_id
from mlflow_dynamodbstore.shared.volumes import Volumes
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.traces.items import is_located, located_place
from mlflow_dynamodbstore.tracking.model_records import LoggedModelPlace

SPREAD = int(os.environ.get("STORE_SPREAD", "1"))
"""How many volumes every experiment has from the start."""


def run_place(run_id: str) -> RunPlace:
    """Where a run of ours lies."""
    return places_by_id(run_id)[0]


def model_place(model_id: str) -> LoggedModelPlace:
    """Where a logged model of ours lies."""
    home = ids.homes_of(model_id)[0]
    return LoggedModelPlace(home.experiment_id, model_id, home.volume)


def trace_place(table: Table, trace_id: str) -> TracePlace:
    """Where a trace lies by its locator."""
    locator = table.get(trace_keys.trace_locator_key(trace_id))
    assert locator is not None
    assert is_located(locator)
    return located_place(locator, trace_id)


def partitions(table: Table, experiment_id: str) -> list[str]:
    """The partitions of all volumes of an experiment, whether or not it is there."""
    known = Volumes(table).partitions(experiment_id)
    first = [experiment_keys.volume_pk(experiment_id, n) for n in range(SPREAD)]
    return list(dict.fromkeys([*first, *known]))


def items_in(
    table: Table, experiment_id: str, within: Range | None = None, index: str | None = None
) -> list[Item]:
    """The items of an experiment, of all its volumes, in a range of sort keys."""
    sk = "SK" if index is None else table.schema.by_name[index].sk
    where = None if within is None else within.on(sk)
    found: Sequence[list[Item]] = [
        list(table.items(Query(pk, where, index=index))) for pk in partitions(table, experiment_id)
    ]
    return [item for items in found for item in items]
