"""Infos of traces: starting a trace and reading its info; the deprecated start and end."""

from __future__ import annotations

from dataclasses import replace

from mlflow.entities import TraceInfo
from mlflow.entities.trace_info_v2 import TraceInfoV2
from mlflow.entities.trace_state import TraceState
from mlflow.entities.trace_status import TraceStatus
from mlflow.tracing.constant import TraceMetadataKey, TraceTagKey
from mlflow.tracing.utils import generate_request_id_v2

from mlflow_dynamodbstore.mlflow_compat.trace_analytics import validate_trace_name
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.places import TracePlace, experiment_id_of, trace_place_of
from mlflow_dynamodbstore.shared.plain_values import duration, moment, texts
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.table.contract import Delete, Put
from mlflow_dynamodbstore.table.request_checks import refuse_oversized
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.traces import assessment_records, items, merging
from mlflow_dynamodbstore.traces.changes import Change, TraceChanges
from mlflow_dynamodbstore.traces.creation import TraceCreation, retried_when_moved
from mlflow_dynamodbstore.traces.experiments import TraceExperiments, artifact_tag
from mlflow_dynamodbstore.traces.items import ttl_of
from mlflow_dynamodbstore.traces.lookup import TraceLookup, TraceNotFound
from mlflow_dynamodbstore.traces.overflow import own_item
from mlflow_dynamodbstore.traces.records import find_record, record, records


class TraceInfos:
    """What a trace holds besides its spans."""

    def __init__(
        self,
        context: Context,
        trace_lookup: TraceLookup,
        trace_changes: TraceChanges,
        trace_experiments: TraceExperiments,
        trace_creation: TraceCreation,
    ) -> None:
        self.context = context
        self.table = context.table
        self.trace_lookup = trace_lookup
        self.trace_changes = trace_changes
        self.trace_experiments = trace_experiments
        self.trace_creation = trace_creation

    def start_trace(self, trace_info: TraceInfo) -> TraceInfo:
        validate_trace_name(trace_info.tags.get(TraceTagKey.TRACE_NAME))
        if not trace_info.trace_id:
            raise invalid("A trace must have an id.")
        experiment = self.trace_experiments.get_active(trace_info.experiment_id)
        trace_id = trace_info.trace_id
        self.context.events.trace_described(experiment_id_of(experiment), trace_info.trace_metadata)
        tags = {**texts(trace_info.tags, "a tag"), **artifact_tag(experiment, trace_id)}
        tags.pop(TraceTagKey.TRACE_NAME, None)
        item = self.trace_experiments.place(
            experiment, trace_id, lambda place: self._start_at(place, trace_info, tags)
        )
        return record(self.table, item).to_info()

    def _start_at(self, place: TracePlace, trace_info: TraceInfo, tags: dict[str, str]) -> Item:
        """Start a trace at a place, or where it already lies in its experiment."""

        def restart(item: Item) -> Item:
            merging.check_takes_info(item)
            item = self.trace_creation.move(item, place)
            # Not followed: if another process moves it back, it is moved here again.
            return self.trace_changes.change(
                item, lambda found: _restarted(found, trace_info, tags), follow=False
            )

        def start() -> Item:
            item, begun = self._start_new(place, trace_info, tags)
            return item if begun and trace_place_of(item) == place else restart(item)

        begun = self._find_begun(place, trace_info)
        return self.trace_lookup.try_cached(
            begun, restart, lambda: retried_when_moved(place.trace_id, start)
        )

    def _find_begun(self, place: TracePlace, info: TraceInfo) -> Item | None:
        """A trace that its spans have begun, if it is cached or likely to be there.

        It is likely when the client says how many spans it has sent.
        """
        known = self.trace_lookup.cached(place.trace_id)
        if known is None and TraceMetadataKey.SIZE_STATS in info.trace_metadata:
            return self.table.get(place.key)
        return known

    def _start_new(
        self, place: TracePlace, info: TraceInfo, tags: dict[str, str]
    ) -> tuple[Item, bool]:
        """Begin a trace with its info; returns the trace, and whether this call has begun it."""
        ttl = self.trace_experiments.expiry()
        started = _started(place, info, tags, int(self.table.clock()), ttl)
        refuse_oversized(self.table.schema, [Put(started.after)])
        lookup = _client_request(place, info, ttl)
        if started.parts:
            # After the locator, so that a deletion that is under way does not remove them.
            located = self.trace_creation.write_locator(place, ttl, lookup)
        else:
            if before := [put for put in started.before if put not in lookup]:
                self.table.write(before)
            located = self.trace_creation.write_locator(place, ttl, lookup, own=started.after)
            if located.is_new:
                return self.trace_lookup.note({**started.after, **located.links}), True

        def make(at: TracePlace) -> Item:
            made = _started(at, info, tags, int(self.table.clock()), ttl)
            self.table.write([*made.before, *made.parts])
            return made.after

        begin = self.trace_creation.begin if located.is_new else self.trace_creation.find_or_begin
        return begin(located, make)

    def get_trace_info(self, trace_id: str) -> TraceInfo:
        found = find_record(self.trace_lookup, trace_id)
        if found is None:
            raise TraceNotFound(trace_id)
        return found.to_info()

    def batch_get_trace_infos(
        self,
        trace_ids: list[str],
        location: str | None = None,
        experiment_ids: list[str] | None = None,
    ) -> list[TraceInfo]:
        del location  # for other stores
        found = self.trace_lookup.find_in_order(trace_ids, experiment_ids)
        return [trace.to_info() for trace in records(self.table, found)]

    # --- the deprecated way -----------------------------------------------------------------------

    def deprecated_start_trace_v2(
        self,
        experiment_id: str,
        timestamp_ms: int,
        request_metadata: dict[str, str],
        tags: dict[str, str],
    ) -> TraceInfoV2:
        name = validate_trace_name(tags.get(TraceTagKey.TRACE_NAME))
        experiment = self.trace_experiments.get_active(experiment_id)
        self.context.events.trace_described(experiment_id_of(experiment), request_metadata)
        plain = {key: value for key, value in tags.items() if key != TraceTagKey.TRACE_NAME}

        def begin(place: TracePlace) -> Item:
            return self._start_v2(
                place,
                moment(timestamp_ms, "timestamp_ms"),
                name,
                request_metadata,
                {**plain, **artifact_tag(experiment, place.trace_id)},
            )

        item = self.trace_experiments.place(experiment, generate_request_id_v2(), begin)
        return TraceInfoV2.from_v3(record(self.table, item).to_info())

    def _start_v2(
        self,
        place: TracePlace,
        began: int,
        name: str | None,
        metadata: dict[str, str],
        tags: dict[str, str],
    ) -> Item:
        ttl = self.trace_experiments.expiry()
        item = items.new_trace(place, int(self.table.clock()), ttl)
        item.update(request_time=began, state=TraceState.IN_PROGRESS.value)
        if name is not None:
            item["name"] = name
        item = merging.with_metadata(item, metadata)
        written = items.tag_writes(place, tags, ttl)
        own = own_item(items.indexed({**item, **written.attributes}))
        self.table.write([*written.items, *own.parts])
        self.trace_creation.write_locator(place, ttl, [Put(own.item)])
        return self.trace_lookup.note(own.item)

    def deprecated_end_trace_v2(
        self,
        request_id: str,
        timestamp_ms: int,
        status: TraceStatus,
        request_metadata: dict[str, str],
        tags: dict[str, str],
    ) -> TraceInfoV2:
        name = validate_trace_name(tags.get(TraceTagKey.TRACE_NAME))
        plain = {key: value for key, value in tags.items() if key != TraceTagKey.TRACE_NAME}

        def ended(item: Item) -> Change:
            written = items.tag_writes(trace_place_of(item), plain, ttl_of(item))
            after = merging.with_metadata({**item, **written.attributes}, request_metadata)
            lasted = moment(timestamp_ms, "timestamp_ms") - item["request_time"]
            after["duration"] = duration(lasted, "the duration")
            after["state"] = TraceStatus(status).value
            if name is not None:
                after["name"] = name
            return Change(items.indexed(after), before=written.items)

        begun = self.trace_lookup.get(request_id)
        self.context.events.trace_described(trace_place_of(begun).experiment_id, request_metadata)
        item = self.trace_changes.change(begun, ended)
        return TraceInfoV2.from_v3(record(self.table, item).to_info())


def _started(
    place: TracePlace, info: TraceInfo, tags: dict[str, str], created: int, ttl: int | None
) -> Change:
    """A new trace from the info given to ``start_trace``."""
    made = _restarted(items.new_trace(place, created, ttl), info, tags)
    own = own_item(made.after)
    return replace(made, after=own.item, parts=own.parts)


def _restarted(item: Item, info: TraceInfo, tags: dict[str, str]) -> Change:
    """A trace after ``start_trace`` with an info."""
    merging.check_takes_info(item)
    place, ttl = trace_place_of(item), ttl_of(item)
    written = items.tag_writes(place, tags, ttl)
    after = {**item, **written.attributes}
    puts = [*written.items, *_client_request(place, info, ttl)]
    before = {(put.item["PK"], put.item["SK"]): put for put in puts}
    for assessment in info.assessments:
        made = assessment_records.record_of(assessment)
        one = assessment_records.writes(place, made, ttl)
        after.update(one.attributes)
        # By key: assessments of one session share a note.
        before.update(((put.item["PK"], put.item["SK"]), put) for put in one.items)
    after = merging.with_info(after, info)
    named_before = "client_request_id" in item and "client_request_id" not in after
    obsolete = [Delete(place.client_request)] if named_before else []
    return Change(after, before=list(before.values()), obsolete=obsolete)


def _client_request(place: TracePlace, info: TraceInfo, ttl: int | None) -> list[Put]:
    """The write of the entry by which a trace is found by the client's id of its request."""
    if info.client_request_id is None:
        return []
    return [Put(items.client_request_item(place, info.client_request_id, ttl))]
