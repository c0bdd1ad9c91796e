"""Traces in a database."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mlflow.entities.entity_type import EntityAssociationType
from mlflow.store.tracking.utils.trace_analytics import (
    COST_COLUMN_BY_KEY,
    PROMOTED_TRACE_METADATA_KEYS,
    TOKEN_COLUMN_BY_KEY,
    assessment_aggregate,
)
from mlflow.tracing.constant import TraceTagKey

from mlflow_dynamodbstore.table.values import Value
from mlflow_dynamodbstore.traces.facts import SpanFact, with_attributes
from mlflow_dynamodbstore.transfer.sql.database import Database, Row
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntityKey
from mlflow_dynamodbstore.transfer.sql.numbers import made_id
from mlflow_dynamodbstore.transfer.sql.rows import Below, Children, NewRows, RowSide, stored

USAGE = (*TOKEN_COLUMN_BY_KEY.values(), *COST_COLUMN_BY_KEY.values())
TEXTS = ("client_request_id", "request_preview", "response_preview")
ASSESSED = (
    "name",
    "assessment_type",
    "value",
    "error",
    "created_timestamp",
    "last_updated_timestamp",
    "source_type",
    "source_id",
    "run_id",
    "span_id",
    "rationale",
    "overrides",
    "valid",
    "assessment_metadata",
)
_TRACE = EntityAssociationType.TRACE


class AssessmentRows(Children):
    """Assessments; MLflow keeps beside them what it sums up in charts."""

    def derived(self, entity: Entity, said: Row) -> Row:
        number, is_numeric = assessment_aggregate(json.loads(said["value"]))
        return {
            "experiment_id": stored("experiment_id", entity.experiment_id),
            "trace_timestamp_ms": entity.values["timestamp_ms"],
            "aggregate_value": number,
            "is_numeric_value": is_numeric,
        }


class SpanRows(Children):
    """Spans; MLflow keeps beside them what it sums up in charts."""

    def derived(self, entity: Entity, said: Row) -> Row:
        fact = fact_of("", said)
        return {
            "experiment_id": stored("experiment_id", entity.experiment_id),
            **{column: fact.cost_of(key) for key, column in COST_COLUMN_BY_KEY.items()},
            "model_name": fact.model,
            "model_provider": fact.provider,
        }


def fact_of(span_id: str, said: Row) -> SpanFact:
    """The fact about a span that a row describes."""
    fact = SpanFact(
        span_id=span_id,
        parent_id=said["parent_span_id"],
        name=said["name"],
        type=said["type"],
        status=said["status"],
        start_ns=said["start_time_unix_nano"],
        end_ns=said["end_time_unix_nano"],
    )
    return with_attributes(fact, json.loads(said["content"]).get("attributes") or {})


@dataclass(frozen=True)
class Links(Below):
    """What traces are linked to; when that was done is known to nobody else."""

    to: str
    tables = ("entity_associations",)

    def read(self, database: Database, keys: Sequence[EntityKey]) -> dict[EntityKey, Value]:
        found: defaultdict[EntityKey, dict[Any, Value]] = defaultdict(dict)
        kinds = {"source_type": _TRACE, "destination_type": self.to}
        for row in database.having("entity_associations", ("source_id",), keys, kinds):
            found[(row["source_id"],)][row["destination_id"]] = True
        return dict(found)

    def rows(self, entity: Entity, value: Value, rows: NewRows) -> None:
        (trace_id,) = entity.key
        rows["entity_associations"] += [
            {
                "association_id": made_id(_TRACE, trace_id, self.to, one),
                "source_type": _TRACE,
                "source_id": trace_id,
                "destination_type": self.to,
                "destination_id": one,
                "created_time": entity.values["timestamp_ms"],
            }
            for one in value
        ]


class TraceRows(RowSide):
    """Traces in a database, with their spans."""

    table = "trace_info"
    key = ("request_id",)
    columns = (
        "experiment_id",
        "timestamp_ms",
        "execution_time_ms",
        "status",
        "trace_name",
        "session_id",
        *TEXTS,
        *USAGE,
    )
    below: ClassVar = {
        "tags": Children("trace_tags", ("request_id",), ("key",), ("value",)),
        "metadata": Children("trace_request_metadata", ("request_id",), ("key",), ("value",)),
        "assessments": AssessmentRows("assessments", ("trace_id",), ("assessment_id",), ASSESSED),
        "spans": SpanRows(
            "spans",
            ("trace_id",),
            ("span_id",),
            (
                "parent_span_id",
                "name",
                "type",
                "status",
                "start_time_unix_nano",
                "end_time_unix_nano",
                "content",
            ),
        ),
        "runs": Links(EntityAssociationType.RUN),
        "prompts": Links(EntityAssociationType.PROMPT_VERSION),
    }
    page_size = 20

    def shaped(self, entity: Entity, row: Row) -> Entity:
        del row
        # What has columns of its own may be there twice, and MLflow shows the columns.
        tags, metadata = entity.values["tags"], entity.values["metadata"]
        tags.pop(TraceTagKey.TRACE_NAME, None)
        for key in PROMOTED_TRACE_METADATA_KEYS:
            metadata.pop(key, None)
        return entity
