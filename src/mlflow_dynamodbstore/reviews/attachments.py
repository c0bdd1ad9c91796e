"""The items by which traces are attached to review queues."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from mlflow_dynamodbstore.keys import reviews as review_keys
from mlflow_dynamodbstore.keys.experiments import experiment_pk
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.places import TracePlace
from mlflow_dynamodbstore.table.contract import Delete, Query
from mlflow_dynamodbstore.table.values import Key


class QueueAttachments:
    """Finds what is attached to queues, for traces that are deleted or get another expiry."""

    def __init__(self, context: Context) -> None:
        self.table = context.table

    def of_trace(self, place: TracePlace) -> list[Key]:
        """The keys of a trace's items in the queues of its experiment, also expired ones."""
        return self.find(experiment_pk(place.experiment_id), place.trace_id)

    def find(self, pk: str, item_id: str) -> list[Key]:
        """The keys of the items with this id in the queues of an experiment, also expired ones."""
        within = review_keys.review_queues_with(item_id).on("lsi4sk")
        found = self.table.items(Query(pk, within, index="LSI4", keys_only=True))
        return [self.table.schema.key_of(item) for item in found]

    def detach(self, places: Sequence[TracePlace]) -> None:
        """Remove traces from every queue of their experiment.

        Called before the traces are deleted, so that an interrupted deletion can be repeated.
        Afterwards nothing would remove a deleted trace from its queues.
        """
        for experiment_id, in_experiment in groupby(places, key=lambda one: one.experiment_id):
            pk = experiment_pk(experiment_id)
            any_queue = Query(pk, review_keys.REVIEW_QUEUES.on(), keys_only=True, limit=1)
            if next(self.table.items(any_queue), None) is not None:
                found = self.table.map(self.of_trace, list(in_experiment))
                self.table.write([Delete(key) for some in found for key in some])
