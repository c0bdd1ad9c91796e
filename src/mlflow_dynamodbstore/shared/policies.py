"""Settings that live in the table's CONFIG partition, read often and changed rarely."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeVar

from boto3.dynamodb.conditions import ConditionBase

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.shared.search.fulltext import TextField
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Value

SOFT_DELETED_RETENTION = "soft_deleted_retention_days"
TRACE_RETENTION = "trace_retention_days"
METRIC_HISTORY_RETENTION = "metric_history_retention_days"
PRIMARY_METRIC = "primary_metric"
PRIMARY_INDEX = "state.primary_metric"
"""The metric that orders LSI5 now; a backfill brings it to ``primary_metric``."""
TEXT_FIELDS = "fts_fields"
DENORMALIZED_TAGS = "denormalized_tags"
XRAY_REGION = "xray_region"
"""The region of X-Ray, which is off without it."""

R = TypeVar("R")

DEFAULTS: Mapping[str, Value] = {
    SOFT_DELETED_RETENTION: 90,
    TRACE_RETENTION: 30,
    METRIC_HISTORY_RETENTION: 365,
    TEXT_FIELDS: {},
    DENORMALIZED_TAGS: ["*"],
}
ENVIRONMENT: Mapping[str, str] = {
    SOFT_DELETED_RETENTION: "MLFLOW_DYNAMODBSTORE_SOFT_DELETED_RETENTION_DAYS",
    TRACE_RETENTION: "MLFLOW_DYNAMODBSTORE_TRACE_RETENTION_DAYS",
    METRIC_HISTORY_RETENTION: "MLFLOW_DYNAMODBSTORE_METRIC_HISTORY_RETENTION_DAYS",
}
"""Variables that win over CONFIG in the process that has them."""
MOST_DAYS = 36_500
REFRESH_SECONDS = 30.0
WORK_SECONDS = 5.0
"""How long a process may take to finish what it began with older settings."""
DAY = 24 * 60 * 60


@dataclass(frozen=True)
class Rules:
    """What is derived from a run when it is sealed, by the operator's choice."""

    primary_metric: str | None = None
    text_fields: tuple[TextField, ...] = ()
    history_days: int = 0  # after which a point of a history expires; 0 for never


class Policies:
    """The settings of one table.

    All are read in one query and kept for half a minute, so that writing a metric does not cost a
    read of the policy; :meth:`read` and :meth:`stored` read one by its key. A change made through
    this object is seen by it at once. The environment, as it is when the object is made, wins over
    CONFIG.
    """

    def __init__(self, table: Table, monotonic: Callable[[], float] = time.monotonic):
        self._table = table
        self._monotonic = monotonic
        self._fixed = _from_environment()
        self._values: dict[str, Value] = {}
        self._read_at: float | None = None

    def get(self, name: str) -> Value:
        """The value in force: what the environment says, or CONFIG, or the default."""
        if name in self._fixed:
            return self._fixed[name]
        if self._is_old():
            self._refresh()
        return self._values.get(name, DEFAULTS.get(name))

    def beside(self, call: Callable[[], R]) -> R:
        """The result of a call; settings that are old are read at the same time.

        For whoever asks for a setting after the call, and would wait for one request more.
        """
        return self._table.together(call, self._refresh)[0] if self._is_old() else call()

    def all(self) -> dict[str, Value]:
        """Every setting in force, defaults included, read anew."""
        self._refresh()
        return {**DEFAULTS, **self._values, **self._fixed}

    def read(self, name: str) -> Value:
        """The value in force of one setting, read anew."""
        if name in self._fixed:
            return self._fixed[name]
        value = self.stored(name)
        return DEFAULTS.get(name) if value is None else value

    def stored(self, name: str) -> Value:
        """The value in the table, whatever the environment says; read anew, None for none."""
        item = self._table.get(access_keys.setting_key(name))
        return None if item is None else item["value"]

    def source(self, name: str) -> str:
        """Where the value in force comes from, as of the last reading."""
        if name in self._fixed:
            return "environment"
        return "table" if name in self._values else "default"

    def set(self, name: str, value: Value, condition: ConditionBase | None = None) -> None:
        """Write a setting; raises ``ConditionFailed`` when ``condition`` does not hold."""
        key, since = access_keys.setting_key(name), int(self._table.clock())
        item = {"PK": key.pk, "SK": key.sk, "value": value, "since": since}
        self._table.put(item, condition=condition)
        self._read_at = None

    def wait_until_known(
        self,
        name: str,
        progress: Callable[[float], None] = lambda _: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Wait until every process has read the new value; reports the seconds left."""
        item = self._table.get(access_keys.setting_key(name)) or {}
        known = int(item.get("since", 0)) + REFRESH_SECONDS + WORK_SECONDS
        while (left := known - self._table.clock()) > 0:
            progress(left)
            sleep(min(left, 1.0))

    def sealing_rules(self) -> Rules:
        """What is derived from a run when it is sealed."""
        index = self.get(PRIMARY_INDEX)
        metric = self.get(PRIMARY_METRIC) if index is None else index["metric"]
        days = self.get(METRIC_HISTORY_RETENTION)
        return Rules(metric or None, tuple(self.text_fields()), days)

    def indexed_metric(self) -> str | None:
        """The metric by which LSI5 holds every sealed run that has it; None while there is none.

        Runs are sealed by the metric of the index, not by the one that is chosen: another process
        may still search by the index (see ``upkeep.primary_metric``).
        """
        index = self.get(PRIMARY_INDEX)
        return index["metric"] if index is not None and index["complete"] else None

    def text_fields(self) -> list[TextField]:
        """The texts that are indexed for full-text search."""
        chosen = self.get(TEXT_FIELDS)
        return [
            TextField(name, tuple(field["levels"]), field["complete"], field.get("gsi2", False))
            for name, field in sorted(chosen.items())
        ]

    def denormalises(self, tag: str) -> bool:
        """Whether an experiment's own item holds the tag of this key."""
        return any(fnmatchcase(tag, pattern) for pattern in self.get(DENORMALIZED_TAGS))

    def expiry(self, policy: str, now: float | None = None) -> int | None:
        """The second at which something written or deleted now expires; None for never."""
        days = self.get(policy)
        if not isinstance(days, int) or days <= 0:
            return None
        return int(self._table.clock() if now is None else now) + days * DAY

    def _is_old(self) -> bool:
        return self._read_at is None or self._monotonic() - self._read_at > REFRESH_SECONDS

    def _refresh(self) -> None:
        items = self._table.items(Query(access_keys.CONFIG_PK, where=access_keys.SETTINGS.on()))
        self._values = {
            str(access_keys.setting_of(str(item["SK"]))): item["value"] for item in items
        }
        self._read_at = self._monotonic()


def retention_days(text: str) -> int:
    """A retention as a person writes it: whole days, 0 for no expiry. Raises ``ValueError``."""
    if not (text.isascii() and text.isdigit() and int(text) <= MOST_DAYS):
        raise ValueError(
            f"{text!r} is not a number of days: write a whole number from 0 (never expire) "
            f"to {MOST_DAYS}"
        )
    return int(text)


def _from_environment() -> dict[str, Value]:
    fixed: dict[str, Value] = {}
    for name, variable in ENVIRONMENT.items():
        text = os.environ.get(variable, "")
        if text:
            try:
                fixed[name] = retention_days(text)
            except ValueError as error:
                raise ValueError(f"{variable}: {error}") from error
    return fixed
