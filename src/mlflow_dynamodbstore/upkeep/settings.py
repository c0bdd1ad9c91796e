"""The settings an operator may change, with what each takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mlflow_dynamodbstore.shared import policies
from mlflow_dynamodbstore.shared.policies import retention_days
from mlflow_dynamodbstore.shared.search.fulltext import LEVELS
from mlflow_dynamodbstore.table.values import Value
from mlflow_dynamodbstore.traces.xray_cache import XRAY_REGION

STATE = "state."
"""Names that begin so are notes of upkeep, not settings."""


@dataclass(frozen=True)
class Setting:
    """A setting: what it means, and how it is read from what a person writes."""

    name: str
    meaning: str
    read: Callable[[str], Value]


def _text(text: str) -> Value:
    return text


def _text_fields(text: str) -> Value:
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is JSON, {error}; `fts add` and `fts remove` write it") from error
    if not isinstance(fields, dict) or not all(map(_is_field, fields.values())):
        raise ValueError(
            'it is such as {"run.name": {"levels": ["word"], "complete": false}}; '
            "`fts add` and `fts remove` write it"
        )
    return fields


def _patterns(text: str) -> Value:
    try:
        patterns = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is JSON, {error}; `tag add` and `tag remove` write it") from error
    if not isinstance(patterns, list) or not all(isinstance(one, str) for one in patterns):
        raise ValueError('it is a list such as ["mlflow.*"]; `tag add` and `tag remove` write it')
    return patterns


def _is_field(field: object) -> bool:
    return (
        isinstance(field, dict)
        and field.keys() >= {"levels", "complete"}
        and isinstance(field["levels"], list)
        and set(field["levels"]) <= set(LEVELS)
        and isinstance(field["complete"], bool)
    )


SETTINGS: Mapping[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting(
            policies.SOFT_DELETED_RETENTION,
            "days that deleted runs and experiments can be restored; 0 keeps them for good",
            retention_days,
        ),
        Setting(
            policies.TRACE_RETENTION,
            "days that traces are kept from their creation; 0 keeps them for good",
            retention_days,
        ),
        Setting(
            policies.METRIC_HISTORY_RETENTION,
            "days that the history of metrics is kept; 0 keeps it for good",
            retention_days,
        ),
        Setting(
            policies.PRIMARY_METRIC,
            "the metric that LSI5 is to order runs by; `primary-metric backfill` does it",
            _text,
        ),
        Setting(
            policies.DENORMALIZED_TAGS,
            "the tags of experiments that stand on the experiment's own item",
            _patterns,
        ),
        Setting(
            XRAY_REGION,
            "the region whose X-Ray is asked for spans that are not stored here",
            _text,
        ),
        Setting(
            policies.TEXT_FIELDS,
            "the texts that are indexed for full-text search",
            _text_fields,
        ),
    )
}
RETENTIONS = (
    policies.SOFT_DELETED_RETENTION,
    policies.TRACE_RETENTION,
    policies.METRIC_HISTORY_RETENTION,
)


def setting(name: str) -> Setting:
    """The setting of a name. Raises ``ValueError``."""
    found = SETTINGS.get(name)
    if found is None:
        raise ValueError(f"{name!r} is no setting; there are {', '.join(sorted(SETTINGS))}")
    return found
