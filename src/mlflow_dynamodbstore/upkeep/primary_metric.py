"""Ordering LSI5 by another primary metric.

A search may use the index only while it holds *every* sealed run with the metric, and processes
cache settings for half a minute. The setting ``primary_metric`` therefore only says which metric is
wanted. A backfill changes the index in steps, and waits after each until every process knows:

1. searches stop using the index (``complete`` becomes false);
2. runs are sealed by the new metric;
3. runs that were sealed before are moved;
4. searches use the index.

A backfill that was stopped resumes where it was; until it ends, searches read RANK.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from secrets import token_hex

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.places import run_id_of
from mlflow_dynamodbstore.shared.policies import PRIMARY_INDEX, PRIMARY_METRIC, Policies
from mlflow_dynamodbstore.table.contract import Patch
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Value
from mlflow_dynamodbstore.tracking import summaries
from mlflow_dynamodbstore.tracking.records import RunContents
from mlflow_dynamodbstore.upkeep.backfill import (
    BackfillProgress,
    Progress,
    ResumableRuns,
    wait_until_known,
)

Index = dict[str, Value]

TAKEN_OVER = "another backfill is changing the index; see `primary-metric show`"


class PrimaryMetric:
    """The primary metric of one table: the wanted one, the one of LSI5, and the backfill."""

    def __init__(
        self,
        table: Table,
        policies: Policies | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        progress: Progress = lambda _: None,
    ):
        self._table = table
        self._policies = policies or Policies(table)
        self._sleep = sleep
        self._progress = progress
        self._runs = ResumableRuns(table, self._policies, PRIMARY_METRIC)

    def wanted(self) -> str | None:
        """The metric that the setting names."""
        return self._policies.all().get(PRIMARY_METRIC) or None

    def index(self) -> Index | None:
        """The metric of the index, whether it is complete, and since when; read from the table."""
        found: Index | None = self._policies.all().get(PRIMARY_INDEX)
        return found

    def backfill(self) -> BackfillProgress:
        """Order the index by the metric that the setting names, and let searches use it.

        Raises ``ValueError`` when another backfill begins meanwhile.
        """
        wanted, index = self.wanted(), self.index()
        if index is not None and index["metric"] != wanted:
            self._retire(index)
            index = None
        done = BackfillProgress()
        if wanted is None:
            return done
        if index is None:
            self._runs.forget_position()
            index = self._begin(wanted)
        if not index["complete"]:
            self._fill(index, done)
        return done

    def _begin(self, metric: str) -> Index:
        """Seal runs by a metric from now on. The token identifies this backfill."""
        index = {**self._now(), "metric": metric, "complete": False, "token": token_hex(8)}
        self._policies.set(PRIMARY_INDEX, index)
        return index

    def _fill(self, index: Index, done: BackfillProgress) -> None:
        self._settle(index)
        for runs in self._runs.pages(done, self._progress):
            # Another backfill waits longer than this page takes before it moves runs.
            if (self.index() or {}).get("token") != index["token"]:
                raise ValueError(TAKEN_OVER)
            self._move(runs, index["metric"], done)
            self._progress(done)
        self._change(index, complete=True)
        self._runs.forget_position()

    def _retire(self, index: Index) -> None:
        """Wait until no process searches by the metric of the index, then drop it.

        Until then runs are still sealed by it, so that no search misses one.
        """
        if index["complete"]:
            index = self._change(index, complete=False)
        self._settle(index)
        self._table.delete(access_keys.setting_key(PRIMARY_INDEX))

    def _move(self, runs: Iterable[Item], metric: str, done: BackfillProgress) -> None:
        """Move runs in the index to their value of a metric.

        A run that changes meanwhile is sealed by the metric anyway.
        """
        moves = list(self._moves(runs, metric))
        outcomes = self._table.write(moves)
        done.entities += len(moves)
        done.entries += sum(outcome.status == "applied" for outcome in outcomes)

    def _moves(self, runs: Iterable[Item], metric: str) -> Iterator[Patch]:
        for run in runs:
            if str(run.get("lsi5sk")) in index_keys.LIVE_RUNS:
                continue  # it will be sealed by the new metric
            summary = large_values.load(self._table, run, summaries.SUMMARY)
            moved = summaries.lsi5_entry(run_id_of(run), RunContents.from_summary(summary), metric)
            if moved.get("lsi5sk") != run.get("lsi5sk"):
                same_generation = Attr("generation").eq(run["generation"])
                unchanged = same_generation & Attr("state").eq(run["state"])
                remove = () if moved else ("lsi5sk",)
                key = self._table.schema.key_of(run)
                yield Patch(key, Update(set=moved, remove=remove), unchanged)

    def _change(self, index: Index, *, complete: bool) -> Index:
        changed = {**index, **self._now(), "complete": complete}
        try:
            own = Attr("value.token").eq(index["token"])
            self._policies.set(PRIMARY_INDEX, changed, condition=own)
        except ConditionFailed as error:
            raise ValueError(TAKEN_OVER) from error
        return changed

    def _now(self) -> Index:
        return {"since": int(self._table.clock())}

    def _settle(self, index: Index) -> None:
        wait_until_known(self._table, index["since"], self._sleep, self._progress)
