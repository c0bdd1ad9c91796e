"""What MLflow sums up of traces: tokens, costs, sessions, values of assessments.

MLflow has this module from 3.17 on. Older releases get the same from us, so that a table holds the
same whichever release wrote it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from mlflow.exceptions import MlflowException
from mlflow.tracing.constant import (
    MAX_CHARS_IN_TRACE_INFO_METADATA,
    MAX_CHARS_IN_TRACE_INFO_TAGS_VALUE,
    TraceMetadataKey,
)

from mlflow_dynamodbstore.mlflow_compat.names import private

ANALYTICS = "mlflow.store.tracking.utils.trace_analytics"
LONGEST_DIMENSION = 500
INT64 = 2**63

TOKEN_COLUMN_BY_KEY = private(
    ANALYTICS,
    "TOKEN_COLUMN_BY_KEY",
    {
        name: name
        for name in (
            "input_tokens",
            "output_tokens",
            "total_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
            "cache_creation_input_tokens_above_1hr",
        )
    },
)
COST_COLUMN_BY_KEY = private(
    ANALYTICS,
    "COST_COLUMN_BY_KEY",
    {name: name for name in ("input_cost", "output_cost", "total_cost")},
)
PROMOTED_TRACE_METADATA_KEYS = private(
    ANALYTICS,
    "PROMOTED_TRACE_METADATA_KEYS",
    frozenset(
        {TraceMetadataKey.TRACE_SESSION, TraceMetadataKey.TOKEN_USAGE, TraceMetadataKey.COST}
    ),
)
TRACE_ANALYTICS_COLUMNS_BY_METADATA_KEY = private(
    ANALYTICS,
    "TRACE_ANALYTICS_COLUMNS_BY_METADATA_KEY",
    {
        TraceMetadataKey.TOKEN_USAGE: TOKEN_COLUMN_BY_KEY,
        TraceMetadataKey.COST: COST_COLUMN_BY_KEY,
    },
)


def _session_id(value: str | None) -> str | None:
    return _within("Session ID", MAX_CHARS_IN_TRACE_INFO_METADATA, value)


def _trace_name(value: str | None) -> str | None:
    return _within("Trace name", MAX_CHARS_IN_TRACE_INFO_TAGS_VALUE, value)


def _within(label: str, limit: int, value: str | None) -> str | None:
    if value is not None and len(value) > limit:
        raise MlflowException.invalid_parameter_value(
            f"'{label}' exceeds the maximum length of {limit} characters"
        )
    return value


def _float(value: Any) -> float | None:
    """A finite number; None for all else."""
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _count(value: Any) -> int | None:
    """A whole number of 64 bits; None for all else."""
    if isinstance(value, bool):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    if not number.is_finite() or not -INT64 <= number < INT64 or number % 1:
        return None
    return int(number)


def _dimension(value: Any) -> str | None:
    return value[:LONGEST_DIMENSION] if isinstance(value, str) else None


def _aggregate(value: Any) -> tuple[float | None, bool]:
    """The number that an assessment's value counts as, and whether it was given as a number."""
    if isinstance(value, bool):
        return float(value), False
    if isinstance(value, (int, float)):
        number = _float(value)
        return number, number is not None
    word = value.strip().lower() if isinstance(value, str) else None
    return {"yes": 1.0, "no": 0.0}.get(word or ""), False


validate_session_id = private(ANALYTICS, "validate_session_id", _session_id)
validate_trace_name = private(ANALYTICS, "validate_trace_name", _trace_name)
finite_float_or_none = private(ANALYTICS, "finite_float_or_none", _float)
token_count_or_none = private(ANALYTICS, "token_count_or_none", _count)
bounded_model_dimension = private(ANALYTICS, "bounded_model_dimension", _dimension)
assessment_aggregate = private(ANALYTICS, "assessment_aggregate", _aggregate)


def _columns(metadata: Mapping[str, str]) -> dict[str, float | int | str | None]:
    """The sums that the metadata of a trace states."""
    columns: dict[str, float | int | str | None] = {}
    if TraceMetadataKey.TRACE_SESSION in metadata:
        columns["session_id"] = validate_session_id(metadata[TraceMetadataKey.TRACE_SESSION])
    tokens = _object(metadata.get(TraceMetadataKey.TOKEN_USAGE))
    for key, column in TOKEN_COLUMN_BY_KEY.items():
        if key in tokens:
            columns[column] = token_count_or_none(tokens[key])
    costs = _object(metadata.get(TraceMetadataKey.COST))
    for key, column in COST_COLUMN_BY_KEY.items():
        if key in costs:
            columns[column] = finite_float_or_none(costs[key])
    return columns


def _object(stated: Any) -> Mapping[str, Any]:
    """A JSON object, given as such or as text; nothing for all else."""
    if isinstance(stated, str):
        try:
            stated = json.loads(stated)
        except ValueError:
            return {}
    return stated if isinstance(stated, dict) else {}


analytics_columns_from_metadata = private(ANALYTICS, "analytics_columns_from_metadata", _columns)
