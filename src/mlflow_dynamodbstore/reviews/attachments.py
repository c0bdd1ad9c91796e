"""Where traces are attached to review queues, for whoever deletes traces or dates them anew."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby

from mlflow_dynamodbstore.keys import reviews as review_keys
from mlflow_dynamodbstore.table.contract import Delete, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.traces.items import TracePlace


def attachments(table: Table, pk: str, item_id: str) -> list[Key]:
    """Where something is attached, in the queues of one experiment; expired or not."""
    within = review_keys.review_queues_with(item_id).on("lsi4sk")
    found = table.items(Query(pk, within, index="LSI4", keys_only=True))
    return [table.schema.key_of(item) for item in found]


def detach(table: Table, places: Sequence[TracePlace]) -> None:
    """Take traces out of every queue of their experiment.

    To be done before they are deleted: should that be interrupted, they can be deleted again,
    while a queue with a trace that is not there would stay so.
    """
    for pk, of_experiment in groupby(places, key=lambda place: place.pk):
        any_queue = Query(pk, review_keys.REVIEW_QUEUES.on(), keys_only=True, limit=1)
        if next(table.items(any_queue), None) is not None:
            trace_ids = [place.trace_id for place in of_experiment]
            found = table.map(partial(attachments, table, pk), trace_ids)
            table.write([Delete(key) for some in found for key in some])
