"""The gate a write to a run passes twice: before, is the run active; after, is it still live.

The first look refuses what MLflow refuses before anything is written. The second is the writer's
half of the agreement in :mod:`~mlflow_dynamodbstore.tracking.sealing`, and it is also what lets a
training loop skip the first look: a run admitted a few seconds ago is taken to be active, and
should the second look find it deleted, what was written is taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlflow.entities.lifecycle_stage import LifecycleStage

from mlflow_dynamodbstore.table.values import TTL, Item
from mlflow_dynamodbstore.tracking import sealing
from mlflow_dynamodbstore.tracking.items import RunPlace, place_of
from mlflow_dynamodbstore.tracking.lookups import TrackingBase, check_run_is_active, run_not_found


class Gate(TrackingBase):
    """Admission of writes to runs."""

    def _admit(self, run_id: str) -> Item:
        """The item of an active run; raises MLflow's errors for any other."""
        item = self._active_run_item(run_id)
        self._admitted.put(run_id, place_of(item))
        return item

    def _admit_lately(self, run_id: str) -> RunPlace:
        """A run that is active, or was a few seconds ago."""
        known = self._admitted.get(run_id)
        if known is not None and self._is_in_workspace(known.experiment_id):
            return known
        return place_of(self._admit(run_id))

    def _confirm(self, run: RunPlace, *, guessed: bool = False) -> None:
        """After a write: make the run live again if it was sealed, raise if it is gone.

        One that was admitted by a guess must still be active. One that was read right before the
        write has been written to before it was deleted: what was written goes its way.
        """
        run_id = run.run_id
        item = self.table.get(run.key)
        if item is None:
            self._admitted.forget(run_id)
            raise run_not_found(run_id)
        deleted = item["lifecycle"] != LifecycleStage.ACTIVE
        if deleted:
            self._admitted.forget(run_id)
        if deleted and guessed:
            check_run_is_active(run_id, item)
        sealing.reopen(self.table, run_id, item)
        if deleted and TTL in item:
            self._date_children(run, item[TTL])

    if TYPE_CHECKING:

        def _date_children(self, run: RunPlace, ttl: int | None) -> None:
            """Let the items of a run expire with it: in ``runs.py``."""
