"""An assessment as it is stored.

A short assessment is a packed attribute of its trace's own item. A long one has an item of its own,
and the trace holds only its head. Notes lead to an assessment from the run that made it, from its
session and from its issue.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mlflow.entities.assessment import Assessment, Expectation, Feedback, IssueReference
from mlflow.entities.assessment_error import AssessmentError
from mlflow.entities.assessment_source import AssessmentSource
from mlflow.tracing.constant import (
    ASSESSMENT_ID_PREFIX,
    AssessmentMetadataKey,
    TraceMetadataKey,
)
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.keys.ids import new_id
from mlflow_dynamodbstore.keys.issues import lsi5_issue
from mlflow_dynamodbstore.mlflow_compat.trace_analytics import assessment_aggregate
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.places import TracePlace
from mlflow_dynamodbstore.shared.plain_values import moment, optional_text, text
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.traces.items import ASSESSMENT, OUTSIDE, item_at

FEEDBACK, EXPECTATION, ISSUE = "feedback", "expectation", "issue"

INLINE_ASSESSMENT = 2 * 1024
"""Bytes up to which an assessment stays in its trace's own item."""

WHOLE = "record"
"""Attribute of a long assessment's own item: the whole record."""

_LONG_FIELDS = {"value": "null", "error": None, "rationale": None, "metadata": None}


@dataclass(frozen=True)
class AssessmentRecord:
    """An assessment. Values, errors and metadata are JSON."""

    assessment_id: str
    name: str
    type: str
    value: str
    created: int
    updated: int
    source_type: str
    source_id: str | None
    valid: bool = True
    error: str | None = None
    run_id: str | None = None
    span_id: str | None = None
    rationale: str | None = None
    overrides: str | None = None
    metadata: str | None = None
    long: bool = False

    @property
    def metadata_map(self) -> dict[str, Any]:
        return json.loads(self.metadata) if self.metadata else {}

    @property
    def is_about_session(self) -> bool:
        """Whether it is about the whole session of its trace."""
        return TraceMetadataKey.TRACE_SESSION in self.metadata_map

    @property
    def source_run(self) -> str | None:
        """The run that made it."""
        run_id: str | None = self.metadata_map.get(AssessmentMetadataKey.SOURCE_RUN_ID)
        return run_id

    @property
    def number(self) -> float | None:
        """The value in metrics: a number, or 1 for yes and 0 for no."""
        return assessment_aggregate(json.loads(self.value))[0]

    @property
    def comparable_number(self) -> float | None:
        """The value in filters with < and >, which see only numbers."""
        number, is_numeric = assessment_aggregate(json.loads(self.value))
        return number if is_numeric else None

    def packed(self) -> bytes:
        """The record as an attribute, without the fields that have their usual values."""
        given = {k: v for k, v in asdict(self).items() if v is not None and k not in _FLAGS}
        if not self.valid:
            given["valid"] = False
        if self.long:
            given["long"] = True
        return large_values.pack(given)


_FLAGS = frozenset({"valid", "long"})


def unpacked(data: bytes, item: Item) -> AssessmentRecord:
    """The record that :meth:`AssessmentRecord.packed` packed; ``item`` is where it was found."""
    return AssessmentRecord(**large_values.unpack(data, item, "an assessment"))


@dataclass(frozen=True)
class AssessmentWrites:
    """What to write for an assessment; only a long one has an item of its own, and parts."""

    attributes: Item
    notes: list[Put]
    own: list[Put] = field(default_factory=list)
    parts: list[Put] = field(default_factory=list)

    @property
    def items(self) -> list[Put]:
        """The items to write before the trace, when the assessment is new."""
        return [*self.parts, *self.own, *self.notes]


def writes(place: TracePlace, record: AssessmentRecord, ttl: int | None) -> AssessmentWrites:
    """What to write for an assessment of a trace."""
    name = ASSESSMENT + record.assessment_id
    notes = [Put(note) for note in _notes(place, record, ttl)]
    whole = replace(record, long=False).packed()
    if len(whole) <= INLINE_ASSESSMENT:
        return AssessmentWrites({name: whole}, notes)
    key = place.assessment(record.assessment_id)
    prepared = large_values.store(key, WHOLE, whole, ttl=ttl)
    head = replace(record, long=True, **_LONG_FIELDS)  # type: ignore[arg-type]
    attributes: Item = {name: head.packed(), OUTSIDE: True}
    own = [Put(item_at(key, prepared.attributes, ttl))]
    return AssessmentWrites(attributes, notes, own, prepared.parts)


def _notes(place: TracePlace, record: AssessmentRecord, ttl: int | None) -> Iterator[Item]:
    """The notes by which an assessment is found without its trace."""
    trace_id, assessment_id = place.trace_id, record.assessment_id
    if record.is_about_session:
        yield item_at(place.session_note, {"trace_id": trace_id}, ttl)
    if record.source_run is not None:
        key = trace_keys.run_assessment_key(record.source_run, trace_id, assessment_id)
        yield item_at(key, {"trace_id": trace_id, "assessment_id": assessment_id}, ttl)
    if record.type == ISSUE:
        index = lsi5_issue(record.name, trace_id, assessment_id)
        yield item_at(place.issue_note(assessment_id), {"lsi5sk": index}, ttl)


def record_of(assessment: Assessment) -> AssessmentRecord:
    """The record of MLflow's assessment, which gets an id if it has none.

    Ids ascend, since assessments made in one millisecond are listed by their ids.
    """
    if assessment.assessment_id is None:
        assessment.assessment_id = ASSESSMENT_ID_PREFIX + new_id()
    now = get_current_time_millis()
    kind, value, error = _content(assessment)
    return AssessmentRecord(
        assessment_id=text(assessment.assessment_id, "assessment_id"),
        name=optional_text(assessment.name, "name"),
        type=kind,
        value=json.dumps(value),
        error=json.dumps(error.to_dictionary()) if error else None,
        created=moment(assessment.create_time_ms or now, "create_time_ms"),
        updated=moment(assessment.last_update_time_ms or now, "last_update_time_ms"),
        source_type=text(assessment.source.source_type, "source_type"),
        source_id=optional_text(assessment.source.source_id, "source_id"),
        run_id=optional_text(assessment.run_id, "run_id"),
        span_id=optional_text(assessment.span_id, "span_id"),
        rationale=optional_text(assessment.rationale, "rationale"),
        overrides=optional_text(assessment.overrides, "overrides"),
        metadata=metadata_json(assessment.metadata),
    )


def metadata_json(metadata: Mapping[str, Any] | None) -> str | None:
    """Metadata as it is stored; None when there is none."""
    return json.dumps(metadata) if metadata else None


def _content(assessment: Assessment) -> tuple[str, Any, AssessmentError | None]:
    if assessment.feedback is not None:
        return FEEDBACK, assessment.feedback.value, assessment.feedback.error
    if assessment.expectation is not None:
        return EXPECTATION, assessment.expectation.value, None
    if assessment.issue is not None:
        return ISSUE, assessment.issue.to_dictionary(), None
    raise invalid("Assessment must have either feedback, expectation, or issue value")


def entity(record: AssessmentRecord, trace_id: str) -> Assessment:
    """The assessment as MLflow's entity."""
    made = _entity_of_type(record, trace_id)
    made.overrides = record.overrides
    made.valid = record.valid
    made.run_id = record.run_id
    made.assessment_id = record.assessment_id
    return made


def _entity_of_type(record: AssessmentRecord, trace_id: str) -> Assessment:
    value = json.loads(record.value)
    common: dict[str, Any] = {
        "source": AssessmentSource(source_type=record.source_type, source_id=record.source_id),
        "trace_id": trace_id,
        "metadata": json.loads(record.metadata) if record.metadata else None,
        "span_id": record.span_id,
        "create_time_ms": record.created,
        "last_update_time_ms": record.updated,
    }
    if record.type == FEEDBACK:
        error = AssessmentError.from_dictionary(json.loads(record.error)) if record.error else None
        return Feedback(
            name=record.name, value=value, error=error, rationale=record.rationale, **common
        )
    if record.type == EXPECTATION:
        return Expectation(name=record.name, value=value, **common)
    return IssueReference(
        issue_id=record.name,
        issue_name=value.get("issue_name"),
        run_id=record.run_id,
        rationale=record.rationale,
        **common,
    )
