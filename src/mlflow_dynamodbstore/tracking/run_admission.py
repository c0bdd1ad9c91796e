"""Admission of writes to runs: before a write, is the run active; after it, is it still live.

The first check refuses what MLflow refuses, before anything is written. The second is the writer's
half of the protocol in :mod:`~mlflow_dynamodbstore.tracking.sealing`. It also lets a training loop
skip the first one: a run that was admitted in the last minute is taken to be active, and if the
second check finds it deleted, the caller undoes what it wrote.
"""

from __future__ import annotations

from mlflow.entities.lifecycle_stage import LifecycleStage

from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.places import RunPlace, run_place_of
from mlflow_dynamodbstore.shared.run_lookup import RunLookup, check_run_is_active, run_not_found
from mlflow_dynamodbstore.table.counters import COUNTERS
from mlflow_dynamodbstore.table.values import TTL, Item
from mlflow_dynamodbstore.tracking import sealing
from mlflow_dynamodbstore.tracking.run_expiry import date_children

ADMISSION_SECONDS = 60.0


class RunAdmission:
    """Decides whether a run takes writes."""

    def __init__(
        self, context: Context, experiment_lookup: ExperimentLookup, run_lookup: RunLookup
    ) -> None:
        self.table = context.table
        self.policies = context.policies
        self.experiment_lookup = experiment_lookup
        self.run_lookup = run_lookup
        self._admitted: BoundedCache[str, RunPlace] = BoundedCache(
            seconds=ADMISSION_SECONDS, name="admitted runs"
        )

    def admit(self, run_id: str) -> Item:
        """The item of an active run; raises MLflow's errors for any other."""
        item = self.run_lookup.get_active(run_id)
        self._admitted.put(run_id, run_place_of(item))
        return item

    def admit_cached(self, run_id: str) -> RunPlace:
        """A run that is active, or was in the last minute."""
        known = self._admitted.get(run_id)
        if known is not None and self.experiment_lookup.is_in_workspace(known.experiment_id):
            return known
        return run_place_of(self.admit(run_id))

    def known_place(self, run_id: str) -> RunPlace | None:
        """Where a run lies, if that is known without reading it."""
        return self.run_lookup.known_place(run_id)

    def forget(self, run_id: str) -> None:
        """Read a run again before the next write to it."""
        self._admitted.forget(run_id)

    def confirm(self, run: RunPlace, *, cached: bool = False, only_metrics: bool = False) -> bool:
        """After a write: make readers see it; raise if the run is gone.

        A run whose admission was ``cached`` must still be active. A run that was read right before
        the write may have been deleted since: what was written expires with it. Returns whether
        metrics have reopened a run that was sealed.
        """
        run_id = run.run_id
        COUNTERS.run_written(run_id)
        self.experiment_lookup.volumes.note_growth(run.experiment_id, run.volume)
        item = self.table.get(run.key)
        if item is None:
            self.forget(run_id)
            raise run_not_found(run_id)
        deleted = item["lifecycle"] != LifecycleStage.ACTIVE
        if deleted:
            self.forget(run_id)
        if deleted and cached:
            check_run_is_active(run_id, item)
        reopened: Item | None = None
        if only_metrics:
            reopened = sealing.reopen_log(self.table, run_id, item)
        else:
            sealing.reopen(self.table, run_id, item)
        # A sealed run that is deleted before it is reopened was dated without its log.
        self._date(run, reopened or item)
        return reopened is not None

    def date_late(self, run: RunPlace) -> None:
        """After a further write: what is written to a run that was deleted meanwhile expires."""
        item = self.table.get(run.key)
        if item is not None:
            self._date(run, item)

    def _date(self, run: RunPlace, item: Item) -> None:
        if item["lifecycle"] != LifecycleStage.ACTIVE and TTL in item:
            date_children(self.table, run, item[TTL], self.policies.sealing_rules())
