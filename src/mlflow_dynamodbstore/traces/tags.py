"""Tags of traces."""

from __future__ import annotations

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.tracing.constant import TraceTagKey

from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.mlflow_compat.trace_analytics import validate_trace_name
from mlflow_dynamodbstore.mlflow_compat.validation import validate_trace_tag
from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.optimistic import Outdated, optimistically
from mlflow_dynamodbstore.shared.places import TracePlace, trace_place_of
from mlflow_dynamodbstore.shared.plain_values import text
from mlflow_dynamodbstore.shared.refusals import not_found
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, is_too_large
from mlflow_dynamodbstore.table.errors import ConditionFailed, TableError
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import TTL, Item
from mlflow_dynamodbstore.traces import items
from mlflow_dynamodbstore.traces.changes import Change, TraceChanges, write_with
from mlflow_dynamodbstore.traces.items import ttl_of
from mlflow_dynamodbstore.traces.lookup import TraceLookup, TraceNotFound


class TraceTags:
    """Setting and deleting tags."""

    def __init__(
        self, context: Context, trace_lookup: TraceLookup, trace_changes: TraceChanges
    ) -> None:
        self.table = context.table
        self.trace_lookup = trace_lookup
        self.trace_changes = trace_changes

    def set_trace_tag(self, trace_id: str, key: str, value: str) -> None:
        key, value = validate_trace_tag(key, text(value, "a tag"))
        if key == TraceTagKey.TRACE_NAME:
            validate_trace_name(value)
            named = {"name": value, "lsi4sk": index_keys.lsi4_trace(trace_id, value)}
            self.trace_changes.update(trace_id, Update(set=named))
            return
        self.trace_lookup.try_cached(
            self.trace_lookup.cached(trace_id),
            lambda known: self._tag(trace_place_of(known), ttl_of(known), key, value),
            lambda: self._tag_located(trace_id, key, value),
        )

    def _tag_located(self, trace_id: str, key: str, value: str) -> None:
        """Set a tag of a trace where its locator says; again when the trace has moved."""
        tried: TracePlace | None = None
        while (locator := self.trace_lookup.find_locator(trace_id)) is not None:
            place = items.located_place(locator, trace_id)
            if place == tried:
                break
            try:
                return self._tag(place, ttl_of(locator), key, value)
            except TraceNotFound:
                tried = place
        raise TraceNotFound(trace_id)

    def _tag(self, place: TracePlace, ttl: int | None, key: str, value: str) -> None:
        """Set a tag of a trace, with the expiry of the trace; raises when it is not there."""
        # A writer that is adding spans must notice that their location changes.
        generations = {"generation": 1} if key == TraceTagKey.SPANS_LOCATION else {}
        self.trace_lookup.forget_item(place.trace_id)

        def attempt() -> None:
            nonlocal ttl
            tag = Put(items.tag_item(place, key, value, ttl))
            attributes = items.tag_writes(place, {key: value}, ttl).attributes
            update = items.counted_edit(Update(set=attributes, add=generations))
            patch = Patch(place.key, update, condition=PRESENT & _expires(ttl))
            try:
                self._write(tag, patch, long=items.OUTSIDE in attributes)
            except ConditionFailed as refused:
                if refused.old is None:
                    self.table.delete(place.tag(key))
                    raise TraceNotFound(place.trace_id) from refused
                ttl = ttl_of(refused.old)  # it was given another expiry
                raise
            except TableError as error:
                if not is_too_large(error) or not self.trace_changes.make_room(place):
                    raise
                raise Outdated from error

        optimistically(f"Trace with ID '{place.trace_id}'", attempt)

    def _write(self, tag: Put, patch: Patch, *, long: bool) -> None:
        """Write a tag's own item and change its trace; raises when the change is refused.

        A long value is in the tag's own item alone. Both are written in one transaction, so that a
        deletion of the tag at the same time does not leave the trace without the value.
        """
        if long:
            write_with(self.table, patch, [tag])
            return
        outcome = self.table.write([tag], then=[patch])[-1]
        if outcome.status != "applied":
            raise ConditionFailed(old=outcome.image)

    def delete_trace_tag(self, trace_id: str, key: str) -> None:
        removed = ("name", "lsi4sk") if key == TraceTagKey.TRACE_NAME else (items.TAG + key,)

        # No condition on the attribute: a dot in its name would make it a path.
        def without(item: Item) -> Change:
            if removed[0] not in item:
                raise not_found(f"No trace tag with key '{key}' for trace with ID '{trace_id}'")
            after = {name: item[name] for name in item if name not in removed}
            return Change(after, together=[Delete(trace_place_of(item).tag(key))])

        self.trace_changes.change(self.trace_lookup.get(trace_id), without)


def _expires(ttl: int | None) -> ConditionBase:
    """A trace expires at this time, or never."""
    return Attr(TTL).not_exists() if ttl is None else Attr(TTL).eq(ttl)
