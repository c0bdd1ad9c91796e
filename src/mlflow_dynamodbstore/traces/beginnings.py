"""How a trace begins, when two callers may begin it at once and in different experiments.

A trace's id says nothing about its experiment, so a small *locator* in a partition of its own says
it, and is written first and once: whoever comes second is told by the refusal where the trace is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from boto3.dynamodb.conditions import Attr
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST

from mlflow_dynamodbstore import keys
from mlflow_dynamodbstore.table.contract import Delete, Put, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.traces import items, merging
from mlflow_dynamodbstore.traces.base import TraceNotFound, TracesBase
from mlflow_dynamodbstore.traces.items import TracePlace, place_of, ttl_of

_FREE = Attr("PK").not_exists()

Fresh = Callable[[TracePlace], Item]
"""Makes the own item of a trace that is to begin at a place."""


class Beginnings(TracesBase):
    """Writing a trace for the first time."""

    def _locate_trace(
        self, place: TracePlace, ttl: int | None, with_it: Sequence[Put]
    ) -> str | None:
        """Write a trace's locator and some items with it, all or none.

        Gives the experiment where the trace already is, when it is located, and None otherwise.
        """
        claim = Put(items.locator(place, ttl), condition=_FREE)
        try:
            self.table.transact([claim, *with_it])
        except TransactionCancelled as error:
            refused = error.reasons[0]
            if refused is None or refused.old is None:
                return self._home_unless_free(error, place)
            return str(refused.old["experiment_id"])
        return None

    def _home_unless_free(self, error: TransactionCancelled, place: TracePlace) -> str:
        """Where a trace is that could not be written beside its locator."""
        if any(reason is not None and reason.code == "ConditionFailed" for reason in error.reasons):
            return place.experiment_id  # its own item is there, without a locator
        raise error

    def _begin_trace(self, place: TracePlace, fresh: Fresh) -> tuple[Item, bool]:
        """The trace at a located place, and whether it was begun by this call."""
        new = fresh(place)
        try:
            self.table.put(new, condition=_FREE)
        except ConditionFailed as refused:
            if refused.old is None:
                raise
            return refused.old, False
        return self._note_trace(new), True

    def _trace_at_home(self, trace_id: str, home: str, fresh: Fresh) -> tuple[Item, bool]:
        """The trace where its locator says, begun there when nothing but the locator is."""
        if not self._is_in_workspace(home):
            raise MlflowException(
                f"Trace with ID '{trace_id}' no longer exists.", RESOURCE_DOES_NOT_EXIST
            )
        place = TracePlace(home, trace_id)
        found = self.table.get(place.key)
        return self._begin_trace(place, fresh) if found is None else (found, False)

    def _moved_trace(self, item: Item, experiment_id: str) -> Item:
        """A trace brought to another experiment, with all that belongs to it."""
        old = place_of(item)
        new = TracePlace(experiment_id, old.trace_id)
        if old == new:
            return item
        current = self.table.get(old.key)  # all of it is written anew, so no memory will do
        if current is None:
            raise TraceNotFound(old.trace_id)
        item = current
        merging.check_takes_info(item)
        query = Query(old.pk, where=keys.trace_children(old.trace_id).on())
        below = list(self.table.items(query))
        note = self.table.get(old.session_note)
        belongings = below if note is None else [*below, note]
        moved = items.indexed({**item, "PK": new.pk})
        # What belongs to it first and the old ones last: at no moment is the trace nowhere.
        self.table.write([Put({**child, "PK": new.pk}) for child in belongings], then=[Put(moved)])
        self.table.put(items.locator(new, ttl_of(item)))
        self.table.delete(old.key)
        self.table.write([Delete(self.table.schema.key_of(child)) for child in belongings])
        return self._note_trace(moved)
