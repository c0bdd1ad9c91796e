"""A batch of spans of one trace: what it adds to the trace, and how it is stored."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mlflow.entities import Span
from mlflow.entities.span_status import SpanStatusCode
from mlflow.entities.trace_state import TraceState
from mlflow.exceptions import MlflowException
from mlflow.tracing.constant import (
    GenAiSemconvKey,
    SpanAttributeKey,
    SpansLocation,
    TraceTagKey,
)
from mlflow.tracing.otel.translation import translate_span_when_storing
from mlflow.tracing.utils import TraceJSONEncoder

from mlflow_dynamodbstore.mlflow_compat.trace_analytics import (
    validate_session_id,
    validate_trace_name,
)
from mlflow_dynamodbstore.mlflow_compat.traces import get_truncated_preview, span_resource
from mlflow_dynamodbstore.mlflow_compat.validation import validate_trace_tag
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.plain_values import shown, text, whole_number
from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.values import Key, Value
from mlflow_dynamodbstore.traces.facts import Facts, fact_of, plain_text
from mlflow_dynamodbstore.traces.items import item_at

_logger = logging.getLogger(__name__)

SPANS = "spans"
# Text outside ASCII is not escaped, so that filters on the content find it.
_encoder = TraceJSONEncoder(ensure_ascii=False)
_RESERVED_RESOURCES = ("telemetry.sdk.", "mlflow.")


class StoredSpan(NamedTuple):
    """A stored span: its JSON, and the fields it is found and sorted by."""

    span_id: str
    parent_id: str | None
    start_ns: int
    content: str


@dataclass
class SpanBatch:
    """Spans of one trace that were sent together."""

    facts: Facts = field(default_factory=dict)
    spans: dict[str, StoredSpan] = field(default_factory=dict)
    session: str | None = None
    user: str | None = None
    root_status: str | None = None
    root_attributes: Mapping[str, Any] | None = None
    root_tags: dict[str, str] = field(default_factory=dict)
    resource_tags: dict[str, str] = field(default_factory=dict)

    @property
    def first_ms(self) -> int:
        """When the first span began."""
        return min(fact.start_ns for fact in self.facts.values()) // 1_000_000

    @property
    def last_ms(self) -> int | None:
        """When the last span ended; None while none has."""
        ends = [fact.end_ns for fact in self.facts.values() if fact.end_ns is not None]
        return max(ends) // 1_000_000 if ends else None

    @property
    def name(self) -> str | None:
        """The name that the root span gives to the trace."""
        return self.root_tags.get(TraceTagKey.TRACE_NAME)

    @property
    def tags(self) -> dict[str, str]:
        """The tags for the trace; one set by a user wins over a resource attribute."""
        tags = {TraceTagKey.SPANS_LOCATION: SpansLocation.TRACKING_STORE.value}
        tags.update(self.resource_tags)
        tags.update(self.root_tags)
        tags.pop(TraceTagKey.TRACE_NAME, None)
        return tags

    def preview(self, attribute: str, role: str) -> str | None:
        """The beginning of the inputs or outputs of the root span."""
        value = (self.root_attributes or {}).get(attribute)
        if not value:
            return None
        preview: str | None = get_truncated_preview(value, role=role)
        return preview

    def stored(self, head: Key, ttl: int | None) -> tuple[Put, list[Put]]:
        """The item that holds the spans, and the parts to write before it."""
        prepared = large_values.store(head, SPANS, [list(s) for s in self.spans.values()], ttl=ttl)
        return Put(item_at(head, prepared.attributes, ttl)), prepared.parts


def batch_of(spans: Sequence[Span]) -> SpanBatch:
    """A batch of these spans, which are of one trace."""
    batch = SpanBatch()
    for span in spans:
        _add(batch, span)
    batch.root_status = _root_status(spans)
    batch.resource_tags = _resource_tags(spans)
    return batch


def unpacked(rows: Value) -> Iterator[StoredSpan]:
    """Spans from their stored rows."""
    return (StoredSpan(*row) for row in rows or ())


def _check(span: Span) -> None:
    """Refuse a span that could not be read back."""
    for value, what in ((span.span_id, "the id"), (span.name, "the name")):
        if text(value, f"{what} of a span") != value:
            raise MlflowException.invalid_parameter_value(
                f"Invalid value {shown(value)} for {what} of a span: it must be text."
            )
    whole_number(span.start_time_ns, "the start of a span")
    if span.end_time_ns is not None:
        whole_number(span.end_time_ns, "the end of a span")


def _add(batch: SpanBatch, span: Span) -> None:
    _check(span)
    as_stored = translate_span_when_storing(span)
    attributes: dict[str, Any] = as_stored.get("attributes") or {}
    content = _encoder.encode(as_stored)
    batch.facts[span.span_id] = fact_of(span, attributes)
    batch.spans[span.span_id] = StoredSpan(
        span.span_id, span.parent_id, span.start_time_ns, content
    )
    if batch.session is None and (session := _session(attributes)):
        batch.session = validate_session_id(session)
    if batch.user is None and (user := attributes.get("user.id")):
        batch.user = plain_text(user)
    if span.parent_id is None:
        batch.root_attributes = attributes
        batch.root_tags.update(_root_tags(attributes))


def _session(attributes: Mapping[str, Any]) -> Any:
    return plain_text(
        attributes.get(SpanAttributeKey.SESSION_ID)
        or attributes.get(GenAiSemconvKey.CONVERSATION_ID)
    )


def _root_status(spans: Sequence[Span]) -> str | None:
    root = next((span for span in spans if span.parent_id is None), None)
    if root is None:
        return None
    failed = root.status.status_code == SpanStatusCode.ERROR
    return TraceState.ERROR.value if failed else TraceState.OK.value


def _root_tags(attributes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Tags that a client without MLflow's API sends as attributes of the root span."""
    prefix = SpanAttributeKey.TRACE_TAG_PREFIX
    for name, value in attributes.items():
        if name.startswith(prefix):
            yield from _valid_tag(name[len(prefix) :], str(plain_text(value)))


def _resource_tags(spans: Sequence[Span]) -> dict[str, str]:
    """The resource attributes of the sending program, which become tags too."""
    resources = (span_resource(span) for span in spans)
    resource = next((r for r in resources if r is not None and r.attributes), None)
    if resource is None:
        return {}
    tags: dict[str, str] = {}
    for name, value in resource.attributes.items():
        if not name.startswith(_RESERVED_RESOURCES):
            text = value if isinstance(value, str) else json.dumps(value)
            tags.update(_valid_tag(name, text))
    return tags


def _valid_tag(key: str, value: str) -> Iterator[tuple[str, str]]:
    """A tag as MLflow validates it, or nothing when it is invalid."""
    try:
        key, value = validate_trace_tag(key, value)
    except MlflowException as error:
        _logger.debug("An attribute does not become a tag of its trace: %s", error)
        return
    if key == TraceTagKey.TRACE_NAME:
        validate_trace_name(value)
    yield key, value
