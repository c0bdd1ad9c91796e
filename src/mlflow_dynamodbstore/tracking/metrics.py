"""Writing metrics: the latest value of each key, and its history.

The latest value is the greatest by (step, timestamp, value). It is written on the condition that
the stored one is smaller, so writers need not read it first and cannot undo each other.

The item also says whether its history came *in order*: each point at a step and time not before
the greatest so far. Nearly all histories do, and are read page by page by step; the reader sorts
the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.entities import Metric
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.places import RunPlace
from mlflow_dynamodbstore.shared.policies import METRIC_HISTORY_RETENTION
from mlflow_dynamodbstore.table.conditions import Template
from mlflow_dynamodbstore.table.contract import Delete, Outcome, Put, Write
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.values import Item, Value
from mlflow_dynamodbstore.tracking.checks import checked_points
from mlflow_dynamodbstore.tracking.logged_models import LoggedModels
from mlflow_dynamodbstore.tracking.points import Point, history_item, latest_point, order
from mlflow_dynamodbstore.tracking.run_admission import RunAdmission

DISORDERED = "disordered"
_STEP, _TIME, _IN_ORDER = Attr("step"), Attr("ts"), Attr(DISORDERED).not_exists()


class Metrics:
    """Logging metrics to runs."""

    def __init__(
        self, context: Context, run_admission: RunAdmission, logged_models: LoggedModels
    ) -> None:
        self.table = context.table
        self.policies = context.policies
        self.run_admission = run_admission
        self.logged_models = logged_models

    def log_metric(self, run_id: str, metric: Metric) -> None:
        points = checked_points([metric], alone=True)
        run = self.run_admission.admit_cached(run_id)
        self.logged_models.log_model_metrics(run, [metric])
        writes = self.prepare_writes(run, points)
        self.complete_writes(run, writes, self.table.write(writes.all()))

    def complete_writes(
        self,
        run: RunPlace,
        writes: MetricWrites,
        outcomes: Sequence[Outcome],
        *,
        cached: bool = True,
    ) -> None:
        """Merge the latest values that were refused and confirm the run; undo if it is deleted."""
        outcomes = outcomes[len(writes.histories) :]
        before = [outcome.image for outcome in outcomes]
        for latest, outcome in zip(writes.latest, outcomes, strict=True):
            if outcome.status == "refused":
                self._merge_latest(latest, outcome.image)
        try:
            self.run_admission.confirm(run, cached=cached)
        except MlflowException:
            self._undo(writes, before)
            raise

    def prepare_writes(self, run: RunPlace, points: Mapping[str, list[Point]]) -> MetricWrites:
        ttl = self.policies.expiry(METRIC_HISTORY_RETENTION)
        writes = MetricWrites()
        for key, given in points.items():
            some = given if len(given) == 1 else _distinct(given)
            writes.histories.append(Put(history_item(run, key, some, ttl)))
            writes.latest.append(Latest.of(run, key, some))
        return writes

    def _merge_latest(self, latest: Latest, old: Item | None) -> None:
        """Merge a latest value that was refused with the stored one, until it is written."""
        while (merged := latest.merged(old)) is not None:
            unchanged = ABSENT if old is None else _unchanged(old)
            try:
                self.table.put(merged, condition=unchanged)
            except ConditionFailed as error:
                old = error.old
            else:
                return

    def _undo(self, writes: MetricWrites, before: Sequence[Item | None]) -> None:
        """Undo a write to a run that turned out to be deleted, unless others have written since."""
        undo: list[Write] = [Delete(self.table.schema.key_of(put.item)) for put in writes.histories]
        for latest, old in zip(writes.latest, before, strict=True):
            written = _unchanged(latest.put.item)
            undo.append(
                Delete(self.table.schema.key_of(latest.put.item), condition=written)
                if old is None
                else Put(old, condition=written)
            )
        self.table.write(undo)


class Latest(NamedTuple):
    """A key's latest value among the points of one call."""

    put: Put
    first: Point
    top: Point

    @classmethod
    def of(cls, run: RunPlace, key: str, points: Sequence[Point]) -> Latest:
        ordered = sorted(points, key=order) if len(points) > 1 else points
        first, top = ordered[0], ordered[-1]
        value: dict[str, Value] = {"step": top.step, "ts": top.timestamp, "value": top.value}
        item = run.child(run_keys.run_metric(run.run_id, key), key, value)
        follows = _follows_condition(first.step, first.timestamp)
        if len(ordered) > 1 and any(b.timestamp < a.timestamp for a, b in pairwise(ordered)):
            item[DISORDERED] = True
            follows = ABSENT
        return cls(Put(item, follows, "old"), first, top)

    def merged(self, old: Item | None) -> Item | None:
        """The latest value of both; None when the old one stays as it is."""
        new = self.put.item
        if old is None:
            return new
        before = latest_point(old)
        in_order = self.first.step >= before.step and self.first.timestamp >= before.timestamp
        disordered = DISORDERED in new or DISORDERED in old or not in_order
        wins = order(self.top)[:3] > order(before)[:3]
        if not wins and disordered == (DISORDERED in old):
            return None
        return {**(new if wins else old), **({DISORDERED: True} if disordered else {})}


@dataclass(frozen=True)
class MetricWrites:
    """What one call writes: an item of history and a latest value for each key."""

    histories: list[Put] = field(default_factory=list)
    latest: list[Latest] = field(default_factory=list)

    def all(self) -> list[Put]:
        return [*self.histories, *(latest.put for latest in self.latest)]


def _distinct(points: list[Point]) -> list[Point]:
    return list({order(point): point for point in reversed(points)}.values())


def _follows(step: int, timestamp: int) -> ConditionBase:
    """There is no latest value, or one that a point follows in step and time."""
    behind = _STEP.lte(step) & _TIME.lte(timestamp) & (_STEP.lt(step) | _TIME.lt(timestamp))
    return ABSENT | (behind & _IN_ORDER)


# The metrics of one call mostly share step and time, and then the condition too.
_follows_condition = lru_cache(maxsize=256)(Template(_follows, 2))


def _unchanged(item: Item) -> ConditionBase:
    """A latest value is still this one."""
    same = (
        Attr("step").eq(item["step"]) & Attr("ts").eq(item["ts"]) & Attr("value").eq(item["value"])
    )
    flag = Attr(DISORDERED)
    return same & (flag.exists() if DISORDERED in item else flag.not_exists())
