"""Traces in a database of MLflow before 3.17.

There the name of a trace is a tag, its session, tokens and costs are metadata, and what charts sum
up lies in tables of its own. Entities have the columns of 3.17, so that a table holds the same
whichever release the database is of.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

from mlflow.tracing.constant import SpanAttributeKey, TraceMetadataKey, TraceTagKey

from mlflow_dynamodbstore.mlflow_compat.trace_analytics import (
    COST_COLUMN_BY_KEY,
    TOKEN_COLUMN_BY_KEY,
    TRACE_ANALYTICS_COLUMNS_BY_METADATA_KEY,
    analytics_columns_from_metadata,
)
from mlflow_dynamodbstore.table.values import Value
from mlflow_dynamodbstore.transfer.sql.database import Row
from mlflow_dynamodbstore.transfer.sql.entities import Entity
from mlflow_dynamodbstore.transfer.sql.rows import ChildTable, NewRows, stored
from mlflow_dynamodbstore.transfer.sql.trace_rows import (
    ASSESSED,
    COUNTED,
    SPAN_COLUMNS,
    TEXTS,
    USAGE,
    TraceRows,
    fact_of,
)


class OlderSpanRows(ChildTable):
    """Spans, with what MLflow sums up in charts: their model, and costs in another table."""

    def derived(self, entity: Entity, columns: Row) -> Row:
        fact = fact_of("", columns)
        model = {
            SpanAttributeKey.MODEL: fact.model,
            SpanAttributeKey.MODEL_PROVIDER: fact.provider,
        }
        named = {key: value for key, value in model.items() if value}
        return {
            "experiment_id": stored("experiment_id", entity.experiment_id),
            "dimension_attributes": named or None,
        }

    def rows(self, entity: Entity, value: Value, rows: NewRows) -> None:
        super().rows(entity, value, rows)
        for span_id, columns in value.items():
            fact = fact_of(span_id, columns)
            rows["span_metrics"] += [
                {"trace_id": entity.key[0], "span_id": span_id, "key": key, "value": cost}
                for key in COST_COLUMN_BY_KEY
                if (cost := fact.cost_of(key)) is not None
            ]


class OlderTraceRows(TraceRows):
    """Traces in a database of MLflow before 3.17, with their spans."""

    columns = ("experiment_id", "timestamp_ms", "execution_time_ms", "status", *TEXTS, *COUNTED)
    children: ClassVar = {
        **TraceRows.children,
        "assessments": ChildTable("assessments", ("trace_id",), ("assessment_id",), ASSESSED),
        "spans": OlderSpanRows("spans", ("trace_id",), ("span_id",), SPAN_COLUMNS),
    }

    def normalised(self, entity: Entity, row: Row) -> Entity:
        tags, metadata = entity.values["tags"], entity.values["metadata"]
        session = metadata.pop(TraceMetadataKey.TRACE_SESSION, None)
        entity.values.update(
            {
                **dict.fromkeys(USAGE),
                **analytics_columns_from_metadata(metadata),
                "trace_name": tags.get(TraceTagKey.TRACE_NAME),
                "session_id": session,
            }
        )
        return super().normalised(entity, row)

    def rows_of(self, entities: Sequence[Entity]) -> NewRows:
        rows = super().rows_of([_with_metadata(entity) for entity in entities])
        rows["trace_metrics"] = [
            {"request_id": entity.key[0], "key": key, "value": entity.values[column]}
            for entity in entities
            for key, column in TOKEN_COLUMN_BY_KEY.items()
            if entity.values[column] is not None
        ]
        return rows


def _with_metadata(entity: Entity) -> Entity:
    """A trace whose name is a tag again, and whose session, tokens and costs are metadata."""
    values = entity.values
    named = {TraceTagKey.TRACE_NAME: values["trace_name"]}
    stated = {TraceMetadataKey.TRACE_SESSION: values["session_id"]}
    for metadata_key, columns in TRACE_ANALYTICS_COLUMNS_BY_METADATA_KEY.items():
        sums = {key: values[c] for key, c in columns.items() if values[c] is not None}
        stated[metadata_key] = json.dumps(sums) if sums else None
    both = {"tags": named, "metadata": stated}
    added = {
        name: {**values[name], **{key: value for key, value in some.items() if value is not None}}
        for name, some in both.items()
    }
    return Entity(entity.key, {**values, **added}, entity.hints)
