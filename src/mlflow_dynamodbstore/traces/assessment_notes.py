"""Notes that lead back to assessments: from the run that made them, their session, their issue."""

from __future__ import annotations

from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.keys.issues import lsi5_issue
from mlflow_dynamodbstore.shared.places import TracePlace
from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.values import TTL, Item
from mlflow_dynamodbstore.traces.assessment_records import ISSUE, AssessmentRecord


def notes(place: TracePlace, record: AssessmentRecord, ttl: int | None) -> list[Put]:
    """What is written before an assessment, so that it can be found other than by its trace."""
    expiry: Item = {} if ttl is None else {TTL: ttl}
    found: list[Item] = []
    if record.speaks_of_session:
        key = place.session_note
        found.append({"PK": key.pk, "SK": key.sk, "trace_id": place.trace_id, **expiry})
    if record.source_run is not None:
        key = trace_keys.run_assessment_key(record.source_run, place.trace_id, record.assessment_id)
        found.append(
            {
                "PK": key.pk,
                "SK": key.sk,
                "trace_id": place.trace_id,
                "assessment_id": record.assessment_id,
                **expiry,
            }
        )
    if record.type == ISSUE:
        key = place.issue_note(record.assessment_id)
        index = lsi5_issue(record.name, place.trace_id, record.assessment_id)
        found.append({"PK": key.pk, "SK": key.sk, "lsi5sk": index, **expiry})
    return [Put(item) for item in found]
