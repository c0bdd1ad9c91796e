"""Deleting traces: by id, or the oldest up to a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from mlflow.utils.validation import _parse_experiment_id

from mlflow_dynamodbstore import keys
from mlflow_dynamodbstore.table.contract import Delete, Query
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.traces.base import TracesBase
from mlflow_dynamodbstore.traces.items import TracePlace, place_of
from mlflow_dynamodbstore.tracking.base import batched

AT_ONCE = 100


class TraceDeletion(TracesBase):
    """Removing traces for good."""

    def _delete_traces(
        self,
        experiment_id: str,
        max_timestamp_millis: int | None = None,
        max_traces: int | None = None,
        trace_ids: list[str] | None = None,
    ) -> int:
        home = str(_parse_experiment_id(experiment_id))
        if not self._is_in_workspace(home):
            return 0
        chosen = (
            self._existing_traces(home, trace_ids)
            if trace_ids
            else islice(self._oldest_traces(home, max_timestamp_millis), max_traces)
        )
        deleted = 0
        for places in batched(chosen, AT_ONCE):
            self._remove_traces(places)
            deleted += len(places)
        return deleted

    def _existing_traces(self, home: str, trace_ids: list[str]) -> Iterator[TracePlace]:
        places = {keys.trace_key(home, one): TracePlace(home, one) for one in trace_ids}
        return (places[key] for key in self.table.get_many(places))

    def _oldest_traces(self, home: str, until: int | None) -> Iterator[TracePlace]:
        """Traces up to a time, the oldest first."""
        within = keys.traces_by_time(None, until)
        query = Query(
            keys.experiment_pk(home), within.on("lsi2sk"), index="LSI2", limit=AT_ONCE * 5
        )
        return (place_of(item) for item in self.table.items(query))

    def _remove_traces(self, places: list[TracePlace]) -> None:
        """The traces first, so that nobody finds half of one; where they lay last."""
        self.table.write([Delete(place.key) for place in places])
        below = self.table.map(self._below_trace, places)
        self.table.write([Delete(key) for some in below for key in some])
        self.table.write([Delete(keys.trace_locator_key(place.trace_id)) for place in places])
        for place in places:
            self._forget_trace(place.trace_id)
        self._after_traces_deleted([place.trace_id for place in places])

    def _below_trace(self, place: TracePlace) -> list[Key]:
        """Everything that belongs to a trace but its own item."""
        query = Query(place.pk, where=keys.trace_children(place.trace_id).on(), keys_only=True)
        found: list[Item] = list(self.table.items(query))
        return [*(self.table.schema.key_of(item) for item in found), place.session_note]

    def _after_traces_deleted(self, trace_ids: list[str]) -> None:
        """For modules that keep references to traces."""
