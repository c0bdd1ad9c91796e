"""The items by which traces are attached to review queues."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from mlflow_dynamodbstore.keys import reviews as review_keys
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.places import TracePlace
from mlflow_dynamodbstore.table.contract import Delete, Query
from mlflow_dynamodbstore.table.values import Key


class QueueAttachments:
    """Follows traces that are deleted or get another expiry."""

    def __init__(self, context: Context) -> None:
        self.table = context.table

    def of_trace(self, place: TracePlace) -> list[Key]:
        """Where a trace is attached, in the queues of its experiment; expired or not."""
        return self.find(place.pk, place.trace_id)

    def find(self, pk: str, item_id: str) -> list[Key]:
        """Where something is attached, in the queues of one experiment; expired or not."""
        within = review_keys.review_queues_with(item_id).on("lsi4sk")
        found = self.table.items(Query(pk, within, index="LSI4", keys_only=True))
        return [self.table.schema.key_of(item) for item in found]

    def detach(self, places: Sequence[TracePlace]) -> None:
        """Take traces out of every queue of their experiment.

        To be done before they are deleted: a deletion that is interrupted can be repeated, while a
        queue with a trace that is gone would stay so.
        """
        for pk, in_experiment in groupby(places, key=lambda place: place.pk):
            any_queue = Query(pk, review_keys.REVIEW_QUEUES.on(), keys_only=True, limit=1)
            if next(self.table.items(any_queue), None) is not None:
                found = self.table.map(self.of_trace, list(in_experiment))
                self.table.write([Delete(key) for some in found for key in some])
