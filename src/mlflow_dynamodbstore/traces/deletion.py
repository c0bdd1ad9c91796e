"""Deleting traces: by id, or the oldest up to a time."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable, Iterator
from itertools import islice

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST, ErrorCode
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.tracing.constant import TraceTagKey
from mlflow.tracing.otel.otel_archival import TRACE_ARCHIVAL_FILENAME

from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.mlflow_compat.validation import parse_experiment_id
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.places import TracePlace, trace_place_of
from mlflow_dynamodbstore.shared.search.streams import side_by_side
from mlflow_dynamodbstore.table.contract import Delete, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.traces import items
from mlflow_dynamodbstore.traces.items import TAG, ttl_of
from mlflow_dynamodbstore.traces.lookup import TraceLookup
from mlflow_dynamodbstore.traces.time_indexes import TimeIndexes

_logger = logging.getLogger(__name__)

AT_ONCE = 100


class TraceDeletion:
    """Removing traces for good."""

    def __init__(
        self,
        context: Context,
        experiment_lookup: ExperimentLookup,
        trace_lookup: TraceLookup,
        trace_time_indexes: TimeIndexes,
    ) -> None:
        self.context = context
        self.table = context.table
        self.experiment_lookup = experiment_lookup
        self.trace_lookup = trace_lookup
        self.trace_time_indexes = trace_time_indexes

    def delete_traces(
        self,
        experiment_id: str,
        max_timestamp_millis: int | None = None,
        max_traces: int | None = None,
        trace_ids: list[str] | None = None,
    ) -> int:
        experiment_id = str(parse_experiment_id(experiment_id))
        if not self.experiment_lookup.is_in_workspace(experiment_id):
            return 0
        chosen = (
            self._existing(experiment_id, trace_ids)
            if trace_ids
            else islice(self._oldest(experiment_id, max_timestamp_millis), max_traces)
        )
        deleted = 0
        for found in batched(chosen, AT_ONCE):
            without_archive = [item for item in found if _delete_archive(item)]
            self._remove(without_archive)
            deleted += len(without_archive)
        return deleted

    def _existing(self, experiment_id: str, trace_ids: list[str]) -> Iterable[Item]:
        volumes = self.experiment_lookup.volumes.of([experiment_id])
        keys = (Key(volume.pk, trace_keys.trace(one)) for one in trace_ids for volume in volumes)
        return self.table.get_many(keys).values()

    def _oldest(self, experiment_id: str, until: int | None) -> Iterator[Item]:
        """Traces up to a time, the oldest first."""
        index = self.trace_time_indexes.of([experiment_id])[experiment_id]
        sort_key = self.table.schema.by_name[index].sk
        where = index_keys.traces_by_time(None, until).on(sort_key)
        pages = (
            self.table.pages(Query(volume.pk, where, index=index, limit=AT_ONCE * 5))
            for volume in self.experiment_lookup.volumes.of([experiment_id])
        )
        streams = side_by_side(self.table, pages, AT_ONCE)
        return heapq.merge(*streams, key=lambda item: str(item[sort_key]))

    def _remove(self, traces: list[Item]) -> None:
        """Remove traces: own items first, so that no half trace is found, and locators last."""
        places = [trace_place_of(item) for item in traces]
        self.context.events.traces_deleting(places)
        below = self.table.map(self._remove_own_item, traces)
        self.table.write([Delete(key) for some in below for key in some])
        removed = [place for place, some in zip(places, below, strict=True) if some]
        self.table.write([_locator_removal(place) for place in removed])
        # A trace that was begun again before its locator was removed has none now.
        for item in self.table.get_many(place.key for place in removed).values():
            self.trace_lookup.ensure_locator(trace_place_of(item), ttl_of(item))
        for place in places:
            self.trace_lookup.forget(place.trace_id)

    def _remove_own_item(self, item: Item) -> list[Key]:
        """Remove a trace's own item; returns the keys of its other items, none when it was gone."""
        place, found = trace_place_of(item), item

        def attempt() -> list[Key]:
            nonlocal found
            below = self._below(place)
            try:
                self.table.delete(place.key, condition=items.is_unchanged(found))
            except ConditionFailed as refused:
                if refused.old is None:
                    return []
                found = refused.old  # with it, other items may have changed
                raise
            return below

        return optimistically(f"Trace with ID '{place.trace_id}'", attempt)

    def _below(self, place: TracePlace) -> list[Key]:
        """The keys of a trace's items but its own, and of the note that its session is assessed."""
        children = trace_keys.trace_children(place.trace_id)
        return [*items.keys_in(self.table, place.pk, children), place.session_note]


def _locator_removal(place: TracePlace) -> Delete:
    """Removes a trace's locator, unless it names another place by now."""
    key = trace_keys.trace_locator_key(place.trace_id)
    return Delete(key, condition=items.locates(place))


def _delete_archive(item: Item) -> bool:
    """Remove the archived spans of a trace, if any; False when that fails and the trace stays."""
    uri = item.get(TAG + TraceTagKey.ARCHIVE_LOCATION)
    if uri is None or not items.is_archived(item):
        return True
    try:
        get_artifact_repository(uri).delete_artifacts(TRACE_ARCHIVAL_FILENAME)
    except Exception as error:
        # Repositories raise what their storage raises. The trace stays while its archive does.
        if _is_missing(error):
            return True
        _logger.warning("The archived spans at %s could not be deleted.", uri, exc_info=True)
        return False
    return True


def _is_missing(error: Exception) -> bool:
    """Whether the archive was removed before."""
    if isinstance(error, MlflowException):
        return bool(error.error_code == ErrorCode.Name(RESOURCE_DOES_NOT_EXIST))
    return isinstance(error, FileNotFoundError)
