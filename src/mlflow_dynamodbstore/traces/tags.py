"""Tags of traces."""

from __future__ import annotations

from boto3.dynamodb.conditions import Attr
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST
from mlflow.store.tracking.utils.trace_analytics import validate_trace_name
from mlflow.tracing.constant import TraceTagKey
from mlflow.utils.validation import _validate_trace_tag

from mlflow_dynamodbstore import keys
from mlflow_dynamodbstore.table.contract import Patch, Put
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.traces import items
from mlflow_dynamodbstore.traces.base import Change, TraceNotFound, TracesBase
from mlflow_dynamodbstore.traces.items import TracePlace, ttl_of

_EXISTS = Attr("generation").exists()


class TraceTags(TracesBase):
    """Setting and deleting tags."""

    def set_trace_tag(self, trace_id: str, key: str, value: str) -> None:
        key, value = _validate_trace_tag(key, value)
        place, ttl = self._trace_place_and_ttl(trace_id)
        if key == TraceTagKey.TRACE_NAME:
            validate_trace_name(value)
            self._rename_trace(place, value)
            return
        # The tag's own item first: the trace may name it only once it is there.
        tag = items.tag_item(place, key, value, ttl)
        attributes = items.tag_writes(place, {key: value}, ttl).attributes
        # Whoever is about to add spans must notice that they have moved elsewhere.
        noticed = {"generation": 1} if key == TraceTagKey.SPANS_LOCATION else {}
        changed = Patch(place.key, Update(set=attributes, add=noticed), condition=_EXISTS)
        outcomes = self.table.write([Put(tag)], then=[changed])
        self._trace_images.forget(trace_id)
        if outcomes[-1].status != "applied":
            self.table.delete(place.tag(key))
            raise TraceNotFound(trace_id)

    def delete_trace_tag(self, trace_id: str, key: str) -> None:
        removed = ("name", "lsi4sk") if key == TraceTagKey.TRACE_NAME else (items.TAG + key,)

        # Not by a condition on the attribute: a dot in its name would be taken for a path.
        def without(item: Item) -> Change:
            if removed[0] not in item:
                raise MlflowException(
                    f"No trace tag with key '{key}' for trace with ID '{trace_id}'",
                    RESOURCE_DOES_NOT_EXIST,
                )
            return Change({name: item[name] for name in item if name not in removed})

        item = self._change_trace(self._trace_item(trace_id), without)
        self.table.delete(items.place_of(item).tag(key))

    def _rename_trace(self, place: TracePlace, name: str) -> None:
        self._trace_images.forget(place.trace_id)
        index = keys.lsi4_trace(place.trace_id, name)
        try:
            self.table.update(
                place.key, Update(set={"name": name, "lsi4sk": index}), condition=_EXISTS
            )
        except ConditionFailed as refused:
            raise TraceNotFound(place.trace_id) from refused

    def _trace_place_and_ttl(self, trace_id: str) -> tuple[TracePlace, int | None]:
        """Where a trace lies and when it expires, which its locator tells too."""
        known: Item | None = self._known_trace(trace_id)
        if known is not None:
            return items.place_of(known), ttl_of(known)
        found = self.table.get(keys.trace_locator_key(trace_id))
        if found is None or not self._is_in_workspace(str(found["experiment_id"])):
            raise TraceNotFound(trace_id)
        return TracePlace(str(found["experiment_id"]), trace_id), ttl_of(found)
