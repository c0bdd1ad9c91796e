"""Assessments: create, get, update, override, delete."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from mlflow.entities.assessment import Assessment, ExpectationValue, FeedbackValue
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INTERNAL_ERROR
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.keys.base import value_parts
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.places import trace_place_of
from mlflow_dynamodbstore.shared.refusals import invalid, not_found
from mlflow_dynamodbstore.table.contract import Delete, Query
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.traces.assessment_records import (
    EXPECTATION,
    FEEDBACK,
    ISSUE,
    AssessmentRecord,
    entity,
    metadata_json,
    record_of,
    unpacked,
    writes,
)
from mlflow_dynamodbstore.traces.changes import Change, TraceChanges
from mlflow_dynamodbstore.traces.items import ASSESSMENT, keys_in, ttl_of
from mlflow_dynamodbstore.traces.lookup import TraceLookup, TraceNotFound
from mlflow_dynamodbstore.traces.records import TraceRecord, find_record, record


class Assessments:
    """What people and LLM judges say about traces."""

    def __init__(
        self, context: Context, trace_lookup: TraceLookup, trace_changes: TraceChanges
    ) -> None:
        self.table = context.table
        self.trace_lookup = trace_lookup
        self.trace_changes = trace_changes

    def create_assessment(self, assessment: Assessment) -> Assessment:
        trace_id = str(assessment.trace_id)
        made = record_of(assessment)
        answer = entity(made, trace_id)  # first, so that what MLflow refuses is not written

        def created(item: Item) -> Change:
            name = ASSESSMENT + made.assessment_id
            if name in item:
                raise MlflowException(
                    f"Failed to create assessment for trace '{trace_id}' "
                    "due to a constraint violation.",
                    INTERNAL_ERROR,
                )
            return _with_assessment(_overridden(item, made), made)

        self.trace_lookup.try_cached(
            self.trace_lookup.cached(trace_id),
            lambda known: self.trace_changes.change(known, created),
            lambda: self.trace_changes.change(self.trace_lookup.get(trace_id), created),
        )
        return answer

    def get_assessment(self, trace_id: str, assessment_id: str) -> Assessment:
        return entity(self._get(trace_id, assessment_id), trace_id)

    def update_assessment(
        self,
        trace_id: str,
        assessment_id: str,
        name: str | None = None,
        expectation: ExpectationValue | None = None,
        feedback: FeedbackValue | None = None,
        rationale: str | None = None,
        metadata: dict[str, str] | None = None,
    ) -> Assessment:
        existing = self._get(trace_id, assessment_id)
        _check_update(existing, expectation, feedback)
        changes: dict[str, Any] = {"updated": get_current_time_millis()}
        if name is not None:
            changes["name"] = name
        if expectation is not None:
            changes["value"] = json.dumps(expectation.value)
        if feedback is not None:
            changes["value"] = json.dumps(feedback.value)
            changes["error"] = (
                json.dumps(feedback.error.to_dictionary()) if feedback.error else None
            )
        if rationale is not None and existing.type != EXPECTATION:
            changes["rationale"] = rationale
        updated: list[Assessment] = []

        def changed(item: Item) -> Change:
            current = _get_from(record(self.table, item), assessment_id)
            merged = metadata_json({**current.metadata_map, **(metadata or {})})
            after = replace(current, metadata=merged, **changes)
            updated[:] = [entity(after, trace_id)]
            made, old = _with_assessment(item, after), self._removal(item, assessment_id)
            return replace(made, together=made.together or old.together, obsolete=old.obsolete)

        self.trace_changes.change(self.trace_lookup.get(trace_id), changed)
        return updated[0]

    def delete_assessment(self, trace_id: str, assessment_id: str) -> None:
        def deleted(item: Item) -> Change | None:
            name = ASSESSMENT + assessment_id
            if name not in item:
                return None
            gone = unpacked(item[name], item)
            after = {key: value for key, value in item.items() if key != name}
            if gone.overrides:
                after = _with_validity(after, gone.overrides, valid=True)
            old = self._removal(item, assessment_id)
            note = Delete(trace_place_of(item).issue_note(assessment_id))
            noted = [note] if gone.type == ISSUE else []
            return replace(old, after=after, obsolete=[*old.obsolete, *noted])

        self.trace_changes.change(self.trace_lookup.get(trace_id), deleted)

    def _removal(self, item: Item, assessment_id: str) -> Change:
        """How to remove the items of an assessment beside its trace, which only a long one has."""
        if not unpacked(item[ASSESSMENT + assessment_id], item).long:
            return Change(item)
        own = trace_place_of(item).assessment(assessment_id)
        parts = keys_in(self.table, own.pk, value_parts(own.sk))
        return Change(item, together=[Delete(own)], obsolete=[Delete(key) for key in parts])

    def delete_assessments_of_run(self, run_id: str) -> None:
        """Remove the assessments that a deleted run has made."""
        pk = trace_keys.run_assessments_pk(run_id)
        for note in list(self.table.items(Query(pk))):
            try:
                self.delete_assessment(str(note["trace_id"]), str(note["assessment_id"]))
            except TraceNotFound:
                self.trace_lookup.forget(str(note["trace_id"]))  # the trace was deleted first
            self.table.delete(self.table.schema.key_of(note))

    def _get(self, trace_id: str, assessment_id: str) -> AssessmentRecord:
        trace = find_record(self.trace_lookup, trace_id)
        if trace is None:
            raise not_found(f"Trace with request_id '{trace_id}' not found")
        return _get_from(trace, assessment_id)


def _get_from(trace: TraceRecord, assessment_id: str) -> AssessmentRecord:
    for found in trace.assessments:
        if found.assessment_id == assessment_id:
            return found
    raise _not_found(trace.place.trace_id, assessment_id)


def _with_assessment(item: Item, made: AssessmentRecord) -> Change:
    """The change that adds an assessment to a trace, or replaces it."""
    written = writes(trace_place_of(item), made, ttl_of(item))
    return Change(
        {**item, **written.attributes},
        before=written.notes,
        parts=written.parts,
        together=written.own,
    )


def _overridden(item: Item, made: AssessmentRecord) -> Item:
    """A trace in which the assessment that another overrides is no longer valid."""
    if not made.overrides:
        return item
    if ASSESSMENT + made.overrides not in item:
        raise _not_found(trace_place_of(item).trace_id, made.overrides)
    return _with_validity(item, made.overrides, valid=False)


def _with_validity(item: Item, assessment_id: str, *, valid: bool) -> Item:
    name = ASSESSMENT + assessment_id
    if name not in item:
        return item
    return {**item, name: replace(unpacked(item[name], item), valid=valid).packed()}


def _check_update(
    existing: AssessmentRecord,
    expectation: ExpectationValue | None,
    feedback: FeedbackValue | None,
) -> None:
    if expectation is not None and feedback is not None:
        raise invalid("Cannot specify both `expectation` and `feedback` parameters.")
    if expectation is not None and existing.type != EXPECTATION:
        raise invalid("Cannot update expectation value on a Feedback assessment.")
    if feedback is not None and existing.type != FEEDBACK:
        raise invalid("Cannot update feedback value on an Expectation assessment.")


def _not_found(trace_id: str, assessment_id: str) -> MlflowException:
    return not_found(f"Assessment with ID '{assessment_id}' not found for trace '{trace_id}'")
