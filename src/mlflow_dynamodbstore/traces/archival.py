"""Archiving: moving the spans of old traces to an artifact repository. The rest stays here."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import islice
from typing import NamedTuple

from mlflow.entities import Span
from mlflow.entities.lifecycle_stage import LifecycleStage
from mlflow.entities.trace_state import TraceState
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.tracing.constant import (
    SpansLocation,
    TraceArchivalFailureReason,
    TraceExperimentTagKey,
    TraceTagKey,
)
from mlflow.tracing.otel.otel_archival import TRACE_ARCHIVAL_FILENAME, spans_to_traces_data_pb
from mlflow.tracing.otel.translation import translate_loaded_span
from mlflow.utils.uri import append_to_uri_path

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.mlflow_compat.trace_archival import (
    ArchiveNowRequest,
    parse_trace_archival_duration_millis,
    resolve_effective_trace_archival_retention,
)
from mlflow_dynamodbstore.mlflow_compat.validation import (
    validate_trace_archival_location,
    validate_trace_archival_retention_string,
)
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.places import ARTIFACTS_FOLDER, trace_place_of
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE
from mlflow_dynamodbstore.shared.search.ordering import Ordering, SortKey
from mlflow_dynamodbstore.table.contract import Delete
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.traces.changes import Change, TraceChanges
from mlflow_dynamodbstore.traces.experiments import TRACES_FOLDER
from mlflow_dynamodbstore.traces.facts import FACTS
from mlflow_dynamodbstore.traces.filters import TraceFilter
from mlflow_dynamodbstore.traces.items import (
    ARCHIVED,
    SPANS_LOCATION,
    TAG,
    keeps_spans_here,
    keys_in,
)
from mlflow_dynamodbstore.traces.lookup import TraceNotFound
from mlflow_dynamodbstore.traces.paths import TIME
from mlflow_dynamodbstore.traces.records import TraceRecord
from mlflow_dynamodbstore.traces.search import TraceSearch

_logger = logging.getLogger(__name__)

_ARCHIVE = TAG + TraceTagKey.ARCHIVE_LOCATION
_FAILURE = TAG + TraceTagKey.ARCHIVAL_FAILURE
_OLDEST_FIRST = Ordering((SortKey(ATTRIBUTE, TIME), SortKey(ATTRIBUTE, "request_id")))


class ArchivalPlan(NamedTuple):
    """The traces of one experiment to archive: those that began up to a time, or all."""

    experiment_id: str
    until: int | None
    request: str | None = None  # the value of the tag that asked for it; the tag goes when done


class TraceArchival:
    """Moving spans to the archive."""

    def __init__(
        self,
        context: Context,
        experiment_lookup: ExperimentLookup,
        trace_changes: TraceChanges,
        trace_search: TraceSearch,
        delete_experiment_tag: Callable[[str, str], None],
        now_ms: Callable[[], int],
    ) -> None:
        self.table = context.table
        self.experiment_lookup = experiment_lookup
        self.trace_changes = trace_changes
        self.trace_search = trace_search
        self.delete_experiment_tag = delete_experiment_tag
        self.now_ms = now_ms

    def archive_traces(
        self,
        *,
        resolved_trace_archival_location: str,
        broader_retention: str,
        long_retention_allowlist: set[str] | list[str] | None = None,
        max_traces_per_pass: int | None = None,
    ) -> int:
        if max_traces_per_pass is not None and max_traces_per_pass <= 0:
            raise invalid(
                f"`max_traces_per_pass` must be a positive integer, received {max_traces_per_pass}."
            )
        root = _required(resolved_trace_archival_location, "resolved_trace_archival_location")
        root = validate_trace_archival_location(
            root, parameter_name="resolved_trace_archival_location"
        )
        retention = validate_trace_archival_retention_string(
            _required(broader_retention, "broader_retention"), parameter_name="broader_retention"
        )
        allowed = {str(one) for one in long_retention_allowlist or []}
        plans = list(self._plans(retention, allowed, self.now_ms()))
        requested = [plan for plan in plans if plan.request is not None]
        regular = [plan for plan in plans if plan.request is None]
        candidates = islice(self._candidates([requested, regular]), max_traces_per_pass)
        archived = sum(self._archive(trace, root) for trace in list(candidates))
        for plan in requested:
            self._finish_request(plan)
        return archived

    def _plans(self, retention: str, allowed: set[str], now: int) -> Iterator[ArchivalPlan]:
        for experiment_id in self.experiment_lookup.ids():
            tags = self._request_and_retention(experiment_id)
            if tags is None:
                continue
            raw = tags.get(TraceExperimentTagKey.ARCHIVE_NOW)
            request = ArchiveNowRequest.from_tag_value(raw)
            if request is not None:
                older = request.older_than_millis
                yield ArchivalPlan(experiment_id, None if older is None else now - older, raw)
            effective = resolve_effective_trace_archival_retention(
                experiment_id=experiment_id,
                experiment_tags=tags,
                broader_retention=retention,
                long_retention_allowlist=allowed,
            )
            kept = parse_trace_archival_duration_millis(effective)
            if kept:
                yield ArchivalPlan(experiment_id, now - kept)

    def _request_and_retention(self, experiment_id: str) -> dict[str, str] | None:
        """The tags about archiving of an active experiment; None when it is not active."""
        meta = self.table.get(experiment_keys.experiment_key(experiment_id))
        if meta is None or meta["lifecycle"] != LifecycleStage.ACTIVE:
            return None
        names = (TraceExperimentTagKey.ARCHIVE_NOW, TraceExperimentTagKey.ARCHIVAL_RETENTION)
        return {name: str(meta[TAG + name]) for name in names if TAG + name in meta}

    def _candidates(self, groups: Iterable[list[ArchivalPlan]]) -> Iterator[TraceRecord]:
        """The traces of each group of plans in turn, the oldest first."""
        seen: set[str] = set()
        for plans in groups:
            streams = [stream for plan in plans for stream in self._candidates_of(plan)]
            for trace in merge(*streams, key=lambda t: (t.request_time, t.place.trace_id)):
                if trace.place.trace_id not in seen:
                    seen.add(trace.place.trace_id)
                    yield trace

    def _candidates_of(self, plan: ArchivalPlan) -> Iterator[Iterator[TraceRecord]]:
        """The traces that a plan archives, a stream for each volume."""
        wanted, searched = TraceFilter.in_period(until=plan.until), [plan.experiment_id]
        for found in self.trace_search.matching_by_volume(searched, wanted, _OLDEST_FIRST):
            yield (trace for some in found for trace in some if _is_archivable(trace.item))

    def _archive(self, trace: TraceRecord, root: str) -> bool:
        """Write the spans of a trace to the archive, then remove them here."""
        experiment_id, trace_id = trace.place.experiment_id, trace.place.trace_id
        try:
            spans = [
                Span.from_dict(translate_loaded_span(json.loads(span.content)))
                for span in sorted(trace.spans)
            ]
            payload = spans_to_traces_data_pb(spans)
        except (MlflowException, TypeError, ValueError, AttributeError):
            reason = TraceArchivalFailureReason.MALFORMED_TRACE.value
            _logger.warning("Trace %s cannot be archived: %s", trace_id, reason)
            self._mark(trace.item, {_FAILURE: reason})
            return False
        uri = append_to_uri_path(root, experiment_id, TRACES_FOLDER, trace_id, ARTIFACTS_FOLDER)
        try:
            get_artifact_repository(uri).upload_archived_trace_data_bytes(payload)
        except Exception:
            # Whatever the repository raises, the trace stays as it is until the next pass.
            _logger.warning(
                "Trace %s was not archived; the next pass tries again.", trace_id, exc_info=True
            )
            return False
        return self._finish(trace.item, uri)

    def _finish(self, item: Item, uri: str) -> bool:
        # Cleanup knows by the mark that spans which are still here have been archived.
        archived: Item = {
            SPANS_LOCATION: SpansLocation.ARCHIVE_REPO.value,
            _ARCHIVE: uri,
            ARCHIVED: True,
        }
        if not self._mark(item, archived):
            get_artifact_repository(uri).delete_artifacts(TRACE_ARCHIVAL_FILENAME)
            return False
        place = trace_place_of(item)
        spans = keys_in(self.table, place.pk, trace_keys.trace_all_spans(place.trace_id))
        self.table.write([Delete(key) for key in spans])
        return True

    def _mark(self, item: Item, attributes: Item) -> bool:
        """Set attributes of a trace; False when it has changed since its spans were read."""
        done: list[bool] = []

        def marked(found: Item) -> Change | None:
            done.clear()
            if found["generation"] != item["generation"]:
                return None
            done.append(True)
            return Change({**found, **attributes})

        try:
            # Not followed: the spans of a trace that moves may be read in part.
            self.trace_changes.change(item, marked, follow=False)
        except TraceNotFound:
            return False
        return bool(done)

    def _finish_request(self, plan: ArchivalPlan) -> None:
        """Remove the tag of a request, unless some traces it asks for can still be archived."""
        blocked = False
        wanted = TraceFilter.in_period(until=plan.until)
        for trace in self.trace_search.matching_traces([plan.experiment_id], wanted):
            if not keeps_spans_here(trace.item) or _FAILURE in trace.item:
                continue
            if FACTS in trace.item or trace.item["state"] == TraceState.IN_PROGRESS.value:
                return
            blocked = True
        if blocked:
            _logger.warning(
                "Experiment %s is archived as its tag asks, except for traces without spans.",
                plan.experiment_id,
            )
        current = self._request_and_retention(plan.experiment_id) or {}
        if current.get(TraceExperimentTagKey.ARCHIVE_NOW) == plan.request:
            self.delete_experiment_tag(plan.experiment_id, TraceExperimentTagKey.ARCHIVE_NOW)


def _required(value: str, name: str) -> str:
    if not value:
        raise invalid(f"`{name}` must be provided.")
    return value


def _is_archivable(item: Item) -> bool:
    """Whether a trace has ended, has spans here, and has not failed to be archived before."""
    return (
        item["state"] != TraceState.IN_PROGRESS.value
        and keeps_spans_here(item)
        and _FAILURE not in item
        and FACTS in item
    )
