"""Traces in a database."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mlflow.entities.entity_type import EntityAssociationType
from mlflow.tracing.constant import TraceTagKey

from mlflow_dynamodbstore.mlflow_compat.trace_analytics import (
    COST_COLUMN_BY_KEY,
    PROMOTED_TRACE_METADATA_KEYS,
    TOKEN_COLUMN_BY_KEY,
    assessment_aggregate,
)
from mlflow_dynamodbstore.table.values import Value
from mlflow_dynamodbstore.traces.facts import SpanFact, with_attributes
from mlflow_dynamodbstore.transfer.sql.column_values import stable_id
from mlflow_dynamodbstore.transfer.sql.database import TABLES, Database, Row
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntityKey
from mlflow_dynamodbstore.transfer.sql.rows import (
    ChildTable,
    ChildTables,
    NewRows,
    RowStore,
    stored,
)

USAGE = (*TOKEN_COLUMN_BY_KEY.values(), *COST_COLUMN_BY_KEY.values())
TEXTS = ("client_request_id", "request_preview", "response_preview")
GENERATION = "db_payload_generation"
"""A column: how often the spans were written, by which MLflow's archival notices a change."""
COUNTED = (GENERATION,) if GENERATION in TABLES["trace_info"].c else ()
"""The column above, where this release has it."""
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
SPAN_COLUMNS = (
    "parent_span_id",
    "name",
    "type",
    "status",
    "start_time_unix_nano",
    "end_time_unix_nano",
    "content",
)
_TRACE = EntityAssociationType.TRACE


class AssessmentRows(ChildTable):
    """Assessments, with the columns that MLflow sums up in charts."""

    def derived(self, entity: Entity, columns: Row) -> Row:
        number, is_numeric = assessment_aggregate(json.loads(columns["value"]))
        return {
            "experiment_id": stored("experiment_id", entity.experiment_id),
            "trace_timestamp_ms": entity.values["timestamp_ms"],
            "aggregate_value": number,
            "is_numeric_value": is_numeric,
        }


class SpanRows(ChildTable):
    """Spans, with the columns that MLflow sums up in charts."""

    def derived(self, entity: Entity, columns: Row) -> Row:
        fact = fact_of("", columns)
        return {
            "experiment_id": stored("experiment_id", entity.experiment_id),
            **{column: fact.cost_of(key) for key, column in COST_COLUMN_BY_KEY.items()},
            "model_name": fact.model,
            "model_provider": fact.provider,
        }


def fact_of(span_id: str, columns: Row) -> SpanFact:
    """The facts about a span in a row."""
    fact = SpanFact(
        span_id=span_id,
        parent_id=columns["parent_span_id"],
        name=columns["name"],
        type=columns["type"],
        status=columns["status"],
        start_ns=columns["start_time_unix_nano"],
        end_ns=columns["end_time_unix_nano"],
    )
    return with_attributes(fact, json.loads(columns["content"]).get("attributes") or {})


@dataclass(frozen=True)
class Links(ChildTables):
    """Links of traces to runs or prompts. A table does not keep their creation time."""

    to: str
    tables = ("entity_associations",)

    def read(self, database: Database, keys: Sequence[EntityKey]) -> dict[EntityKey, Value]:
        found: defaultdict[EntityKey, dict[Any, Value]] = defaultdict(dict)
        kinds = {"source_type": _TRACE, "destination_type": self.to}
        for row in database.rows_with("entity_associations", ("source_id",), keys, kinds):
            found[(row["source_id"],)][row["destination_id"]] = True
        return dict(found)

    def rows(self, entity: Entity, value: Value, rows: NewRows) -> None:
        (trace_id,) = entity.key
        rows["entity_associations"] += [
            {
                "association_id": stable_id(_TRACE, trace_id, self.to, one),
                "source_type": _TRACE,
                "source_id": trace_id,
                "destination_type": self.to,
                "destination_id": one,
                "created_time": entity.values["timestamp_ms"],
            }
            for one in value
        ]


class TraceRows(RowStore):
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
        *COUNTED,
    )
    children: ClassVar = {
        "tags": ChildTable("trace_tags", ("request_id",), ("key",), ("value",)),
        "metadata": ChildTable("trace_request_metadata", ("request_id",), ("key",), ("value",)),
        "assessments": AssessmentRows("assessments", ("trace_id",), ("assessment_id",), ASSESSED),
        "spans": SpanRows("spans", ("trace_id",), ("span_id",), SPAN_COLUMNS),
        "runs": Links(EntityAssociationType.RUN),
        "prompts": Links(EntityAssociationType.PROMPT_VERSION),
    }
    page_size = 20

    def normalised(self, entity: Entity, row: Row) -> Entity:
        del row
        # Some tags and metadata also have columns, and MLflow shows the columns.
        tags, metadata = entity.values["tags"], entity.values["metadata"]
        tags.pop(TraceTagKey.TRACE_NAME, None)
        for key in PROMOTED_TRACE_METADATA_KEYS:
            metadata.pop(key, None)
        return entity
