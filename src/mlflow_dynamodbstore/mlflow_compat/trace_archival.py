"""How long traces are kept before they are archived."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from mlflow.exceptions import MlflowException
from mlflow.tracing.constant import TraceExperimentTagKey

from mlflow_dynamodbstore.mlflow_compat.names import private
from mlflow_dynamodbstore.mlflow_compat.validation import validate_trace_archival_retention_string

ARCHIVAL = "mlflow.store.tracking.utils.trace_archival"
MINUTE_MS = 60_000
UNIT_MS = {"m": MINUTE_MS, "h": 60 * MINUTE_MS, "d": 24 * 60 * MINUTE_MS}


def _duration_ms(value: str | None) -> int | None:
    if value is None:
        return None
    text = validate_trace_archival_retention_string(value)
    return int(text[:-1]) * UNIT_MS[text[-1]]


parse_trace_archival_duration_millis = private(
    ARCHIVAL, "_parse_trace_archival_duration_millis", _duration_ms
)


def _effective_retention(
    *,
    experiment_id: str,
    experiment_tags: dict[str, str],
    broader_retention: str,
    long_retention_allowlist: Collection[str],
) -> str:
    """An experiment's own retention if it is shorter or if the experiment may keep longer."""
    stated = _stated(experiment_tags.get(TraceExperimentTagKey.ARCHIVAL_RETENTION)) or {}
    own = stated.get("value") if stated.get("type") == "duration" else None
    try:
        own_ms = parse_trace_archival_duration_millis(own)
    except MlflowException:
        return broader_retention
    broader_ms = parse_trace_archival_duration_millis(broader_retention)
    if own is None or own_ms is None or broader_ms is None:
        return broader_retention
    longer = own_ms > broader_ms and experiment_id not in long_retention_allowlist
    return broader_retention if longer else str(own).strip()


resolve_effective_trace_archival_retention = private(
    ARCHIVAL, "_resolve_effective_trace_archival_retention", _effective_retention
)


@dataclass(frozen=True)
class _Request:
    """A request to archive the traces of an experiment now: the older ones, or all."""

    older_than_millis: int | None

    @classmethod
    def from_tag_value(cls, value: str | None) -> _Request | None:
        """The request that a tag states; None if there is none or it makes no sense."""
        stated = _stated(value)
        if stated is None:
            return None
        try:
            return cls(parse_trace_archival_duration_millis(stated.get("older_than")))
        except MlflowException:
            return None


ArchiveNowRequest = private(ARCHIVAL, "_ArchiveNowRequest", _Request)


def _stated(tag: str | None) -> Mapping[str, Any] | None:
    """The JSON object in a tag; None if there is no tag or something else in it."""
    try:
        found = json.loads(tag or "null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
