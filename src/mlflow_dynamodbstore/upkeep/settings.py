"""The settings that an operator may change, and the values each takes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mlflow_dynamodbstore.shared import policies
from mlflow_dynamodbstore.shared.policies import retention_days
from mlflow_dynamodbstore.shared.search.fulltext import LEVELS
from mlflow_dynamodbstore.table import location
from mlflow_dynamodbstore.table.values import Value

STATE = "state."
"""Names that begin with this are notes of upkeep, not settings."""


@dataclass(frozen=True)
class Setting:
    """A setting: its meaning, and how its value is read from text."""

    name: str
    meaning: str
    read: Callable[[str], Value]


def _text(text: str) -> Value:
    return text


def _region(text: str) -> Value:
    if text and not re.fullmatch(location.OPTIONS["endpoint"]["region"].pattern, text):
        raise ValueError(f"{text!r} is not an AWS region; one looks like us-east-1")
    return text


def _text_fields(text: str) -> Value:
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it must be JSON ({error}); use `fts add` and `fts remove`") from error
    if not isinstance(fields, dict) or not all(map(_is_field, fields.values())):
        raise ValueError(
            'it must look like {"run.name": {"levels": ["word"], "complete": false}}; '
            "use `fts add` and `fts remove`"
        )
    return fields


def _patterns(text: str) -> Value:
    try:
        patterns = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"it must be JSON ({error}); use `tag add` and `tag remove`") from error
    if not isinstance(patterns, list) or not all(isinstance(one, str) for one in patterns):
        raise ValueError('it must look like ["mlflow.*"]; use `tag add` and `tag remove`')
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
            "days that deleted runs and experiments can be restored; 0 means forever",
            retention_days,
        ),
        Setting(
            policies.TRACE_RETENTION,
            "days that traces are kept from their creation; 0 means forever",
            retention_days,
        ),
        Setting(
            policies.METRIC_HISTORY_RETENTION,
            "days that the history of metrics is kept; 0 means forever",
            retention_days,
        ),
        Setting(
            policies.PRIMARY_METRIC,
            "the metric that LSI5 orders runs by after `primary-metric backfill`",
            _text,
        ),
        Setting(
            policies.DENORMALIZED_TAGS,
            "the tags of experiments that are copied to the experiments' own items",
            _patterns,
        ),
        Setting(
            policies.XRAY_REGION,
            "the region of the X-Ray from which missing spans are fetched",
            _region,
        ),
        Setting(
            policies.TEXT_FIELDS, "the texts that are indexed for full-text search", _text_fields
        ),
    )
}
RETENTIONS = (
    policies.SOFT_DELETED_RETENTION,
    policies.TRACE_RETENTION,
    policies.METRIC_HISTORY_RETENTION,
)


def setting(name: str) -> Setting:
    """The setting of this name. Raises ``ValueError`` when there is none."""
    found = SETTINGS.get(name)
    if found is None:
        raise ValueError(f"{name!r} is not a setting; these are: {', '.join(sorted(SETTINGS))}")
    return found
