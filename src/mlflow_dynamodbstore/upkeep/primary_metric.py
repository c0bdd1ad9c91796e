"""What LSI5 orders runs by: bringing the index to another primary metric.

A search may read runs by the metric of the index only while *every* sealed run with that metric
stands in it, and processes keep settings for half a minute. So the setting ``primary_metric`` is a
wish, and the index follows it here, in steps that are each given time to be known everywhere:

1. searches stop using the index (``complete`` is taken back);
2. runs are sealed by the new metric;
3. runs sealed before are moved to their place in it;
4. searches use it.

Stopped anywhere, it is taken up where it was; searches read RANK meanwhile.
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
from mlflow_dynamodbstore.tracking import sealing
from mlflow_dynamodbstore.tracking.records import RunContents
from mlflow_dynamodbstore.upkeep.run_walk import Done, Progress, RunWalk, settle

Index = dict[str, Value]

TAKEN_OVER = "another backfill has taken over the index; see `primary-metric show`"


class PrimaryMetric:
    """The order of LSI5 in one table."""

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
        self._walk = RunWalk(table, self._policies, PRIMARY_METRIC)

    def wanted(self) -> str | None:
        """The metric that the setting names."""
        return self._policies.all().get(PRIMARY_METRIC) or None

    def index(self) -> Index | None:
        """The metric of the index, whether it is complete and since when; read anew."""
        found: Index | None = self._policies.all().get(PRIMARY_INDEX)
        return found

    def backfill(self) -> Done:
        """Bring the index to the metric that the setting names, and let searches use it.

        Raises ``ValueError`` when another backfill takes the index over meanwhile.
        """
        wanted, index = self.wanted(), self.index()
        if index is not None and index["metric"] != wanted:
            self._retire(index)
            index = None
        done = Done()
        if wanted is None:
            return done
        if index is None:
            self._walk.forget()
            index = self._begin(wanted)
        if not index["complete"]:
            self._fill(index, done)
        return done

    def _begin(self, metric: str) -> Index:
        """Seal runs by a metric from now on; the token tells one backfill from the next."""
        index = {**self._now(), "metric": metric, "complete": False, "token": token_hex(8)}
        self._policies.set(PRIMARY_INDEX, index)
        return index

    def _fill(self, index: Index, done: Done) -> None:
        self._settle(index)
        for runs in self._walk.pages(done, self._progress):
            # Whoever takes over waits before moving runs for longer than a page takes.
            if (self.index() or {}).get("token") != index["token"]:
                raise ValueError(TAKEN_OVER)
            self._place(runs, index["metric"], done)
            self._progress(done)
        self._change(index, complete=True)
        self._walk.forget()

    def _retire(self, index: Index) -> None:
        """Let every process stop searching by the metric of the index, then let go of it.

        Until then runs go on being sealed by it, so that whoever still searches misses none.
        """
        if index["complete"]:
            index = self._change(index, complete=False)
        self._settle(index)
        self._table.delete(access_keys.setting_key(PRIMARY_INDEX))

    def _place(self, runs: Iterable[Item], metric: str, done: Done) -> None:
        """Move runs to their place by a metric; those that change meanwhile are sealed by it."""
        moves = list(self._moves(runs, metric))
        outcomes = self._table.write(moves)
        done.entities += len(moves)
        done.entries += sum(outcome.status == "applied" for outcome in outcomes)

    def _moves(self, runs: Iterable[Item], metric: str) -> Iterator[Patch]:
        for run in runs:
            if str(run.get("lsi5sk")) in index_keys.LIVE_RUNS:
                continue  # it is sealed by the new metric when its time comes
            summary = large_values.load(self._table, run, sealing.SUMMARY)
            place = sealing.lsi5_entry(run_id_of(run), RunContents.from_summary(summary), metric)
            if place.get("lsi5sk") != run.get("lsi5sk"):
                unchanged = Attr("generation").eq(run["generation"]) & Attr("state").eq(
                    run["state"]
                )
                remove = () if place else ("lsi5sk",)
                key = self._table.schema.key_of(run)
                yield Patch(key, Update(set=place, remove=remove), unchanged)

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
        settle(self._table, index["since"], self._sleep, self._progress)
