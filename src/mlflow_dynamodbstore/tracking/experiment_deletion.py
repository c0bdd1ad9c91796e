"""Deleting and restoring experiments, with their runs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.entities.lifecycle_stage import LifecycleStage
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.mlflow_compat.validation import parse_experiment_id
from mlflow_dynamodbstore.shared.bulk import batched, empty_partition
from mlflow_dynamodbstore.shared.conditions import ABSENT, names_experiment
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_items import entry_key
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.places import experiment_id_of, run_id_of
from mlflow_dynamodbstore.shared.policies import SOFT_DELETED_RETENTION
from mlflow_dynamodbstore.shared.refusals import not_found
from mlflow_dynamodbstore.shared.run_lookup import RunFacts, start_time_of
from mlflow_dynamodbstore.shared.search.name_index import NameIndex
from mlflow_dynamodbstore.shared.volume_states import RESERVE
from mlflow_dynamodbstore.table.contract import Delete, IncompleteWrite, Patch, Query, is_full
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import TTL, Item
from mlflow_dynamodbstore.table.versions import upgrade_of
from mlflow_dynamodbstore.tracking.run_admission import RunAdmission
from mlflow_dynamodbstore.tracking.runs import PLACES, Runs, missing_places

_logger = logging.getLogger(__name__)

RUNS_TO = "runs_to"
"""Attribute of META: the stage that its runs are being given; removed once all have it."""
RUNS_AT_ONCE = 500
ACTIVE, DELETED = LifecycleStage.ACTIVE, LifecycleStage.DELETED


class ExperimentDeletion:
    """Moves an experiment and its runs from one lifecycle stage to the other."""

    def __init__(
        self,
        context: Context,
        experiment_lookup: ExperimentLookup,
        experiment_names: NameIndex,
        run_admission: RunAdmission,
        runs: Runs,
    ) -> None:
        self.context = context
        self.table = context.table
        self.policies = context.policies
        self.experiment_lookup = experiment_lookup
        self.experiment_names = experiment_names
        self.run_admission = run_admission
        self.runs = runs

    def delete_experiment(self, experiment_id: str | int) -> None:
        parse_experiment_id(experiment_id)  # an empty one is not that of the default experiment
        meta = self._set_stage(experiment_id, ACTIVE, DELETED)
        self.experiment_lookup.forget(experiment_id_of(meta))
        # A call that saw the experiment active may have added a run: repeat until there is none.
        while self._delete_runs(meta) and self._has_pending_runs(meta, DELETED):
            pass
        self._clear_pending_runs(meta, DELETED)

    def _delete_runs(self, meta: Item) -> bool:
        """Delete the active runs of a deleted experiment; returns whether to look for more.

        There is no need once none is found, or when the experiment is no longer deleted.
        """
        found = False
        for runs in batched(self._runs_in(meta, ACTIVE), RUNS_AT_ONCE):
            found = True
            if not self._reconcile_runs(meta, self._set_stage_of_runs(runs, DELETED), DELETED):
                return False
            self.table.map(lambda run: self.context.events.run_deleted(run_id_of(run)), runs)
        return found

    def restore_experiment(self, experiment_id: str | int) -> None:
        meta = self._set_stage(experiment_id, DELETED, ACTIVE)
        for runs in batched(self._runs_in(meta, DELETED), RUNS_AT_ONCE):
            alone = [run for run in runs if _was_deleted_alone(run)]
            for run in alone:
                self.runs.restore(RunFacts.of(run))
            others = [run for run in runs if not _was_deleted_alone(run)]
            if not self._reconcile_runs(
                meta, alone + self._set_stage_of_runs(others, ACTIVE), ACTIVE
            ):
                return
        self._clear_pending_runs(meta, ACTIVE)

    def _set_stage(self, experiment_id: str | int, before: str, after: str) -> Item:
        """Move an experiment from one stage to the other, before its runs.

        So no runs are added to it while its runs follow. Until all have, META names their stage,
        so that the same call continues after an interruption.
        """

        def attempt() -> Item:
            meta = self.experiment_lookup.get(experiment_id)
            if meta.get(RUNS_TO) == after:
                return meta
            if meta["lifecycle"] != before:
                raise not_found(f"No Experiment with id={experiment_id_of(meta)} exists")
            self._write_stage(meta, after)
            return meta

        return optimistically(f"Experiment {experiment_id}", attempt)

    def _write_stage(self, meta: Item, stage: str) -> None:
        """Give an experiment another stage, unless it has changed since it was read.

        A deleted experiment expires, and its name is free again at the same moment.
        """
        ttl = self.policies.expiry(SOFT_DELETED_RETENTION) if stage == DELETED else None
        changes: Item = {"lifecycle": stage, "last_update_time": get_current_time_millis()}
        if ttl is not None:
            changes[TTL] = ttl
        undated = () if ttl is not None else (TTL,)
        # A deletion has room for what it adds, even if the partition is full.
        removed = (*undated, RESERVE) if stage == DELETED else undated
        same = Attr("name").eq(meta["name"]) & Attr("lifecycle").eq(meta["lifecycle"])
        own = names_experiment(experiment_id_of(meta))
        self.table.transact(
            [
                Patch(
                    self.table.schema.key_of(meta),
                    Update(set={**upgrade_of(meta), **changes, RUNS_TO: stage}, remove=removed),
                    condition=same,
                ),
                Patch(entry_key(meta), Update(set=changes, remove=undated), condition=own),
            ]
        )

    def _runs_in(self, meta: Item, stage: str) -> Iterable[Item]:
        where = index_keys.runs_by_lifecycle(stage).on("lsi1sk")
        for volume in self.experiment_lookup.volumes.of([experiment_id_of(meta)]):
            yield from self.table.items(
                Query(volume.pk, where=where, index="LSI1", limit=RUNS_AT_ONCE)
            )

    def _set_stage_of_runs(self, runs: Sequence[Item], stage: str) -> list[Item]:
        """Give runs another stage, without an expiry: they stay as long as their experiment.

        Returns the runs that were changed. One that was deleted on its own since it was read has
        an expiry, and stays deleted.
        """
        now = self.context.now_ms()
        patches = [
            Patch(
                self.table.schema.key_of(run),
                _stage_update(run, stage, now),
                condition=_is_as_read(run),
            )
            for run in runs
        ]
        try:
            outcomes = self.table.write(patches)
        except IncompleteWrite as error:
            if stage != DELETED or not is_full(error):
                raise
            # The runs give up their places in indexes for it, until they are restored.
            for patch in patches:
                patch.update = replace(patch.update, remove=PLACES)
            outcomes = self.table.write(patches)
        for run in runs:
            self.run_admission.forget(run_id_of(run))
        return [run for run, done in zip(runs, outcomes, strict=True) if done.status == "applied"]

    def _reconcile_runs(self, meta: Item, runs: Sequence[Item], stage: str) -> bool:
        """Whether an experiment still has the stage that some of its runs were just given.

        If not, the call that changed the experiment may have missed these runs: they follow here.
        """
        given = stage
        while (now := self._stage_of(meta)) not in (None, given):
            self._set_stage_of_runs([{**run, "lifecycle": given} for run in runs], str(now))
            given = str(now)
        return now == stage

    def _stage_of(self, meta: Item) -> str | None:
        """The stage that an experiment has now; None when it is gone."""
        now = self.table.get(self.table.schema.key_of(meta))
        return None if now is None else str(now["lifecycle"])

    def _has_pending_runs(self, meta: Item, stage: str) -> bool:
        """Whether an experiment's runs are still being given a stage."""
        now = self.table.get(self.table.schema.key_of(meta))
        return now is not None and now.get(RUNS_TO) == stage

    def _clear_pending_runs(self, meta: Item, stage: str) -> None:
        key = self.table.schema.key_of(meta)
        try:
            self.table.update(key, Update(remove=(RUNS_TO,)), condition=Attr(RUNS_TO).eq(stage))
        except ConditionFailed:
            return  # another call has changed the stage again, or removed the experiment

    def hard_delete_experiment(self, experiment_id: str | int) -> None:
        """Remove a deleted experiment and all that belongs to it, for good; for ``mlflow gc``."""
        meta = self.experiment_lookup.get(experiment_id, {DELETED})
        key = self.table.schema.key_of(meta)
        # The experiment last: until then a second call finds it and continues.
        for pk in self.experiment_lookup.volumes.partitions(experiment_id_of(meta)):
            empty_partition(self.table, pk, keep=frozenset({key.sk}))
        own = names_experiment(experiment_id_of(meta)) | ABSENT
        self.table.transact(
            [
                Delete(key, condition=Attr("lifecycle").eq(DELETED)),
                Delete(entry_key(meta), condition=own),
            ]
        )
        self.experiment_names.leave(
            str(meta["workspace"]), experiment_id_of(meta), str(meta["name"])
        )


def _was_deleted_alone(run: Item) -> bool:
    """Whether a run was deleted before its experiment was, which gave its items an expiry."""
    return TTL in run


def _is_as_read(run: Item) -> ConditionBase:
    """A run still has the stage it was read with, and was not deleted on its own since."""
    same = Attr("lifecycle").eq(run["lifecycle"])
    return same if run["lifecycle"] == ACTIVE else same & Attr(TTL).not_exists()


def _stage_update(run: Item, stage: str, now_ms: int) -> Update:
    in_stage = index_keys.lsi1_run(run_id_of(run), stage, start_time_of(run))
    changes: Item = {"lifecycle": stage, "lsi1sk": in_stage}
    if stage == DELETED:
        return Update(set={**changes, "deleted_time": now_ms})
    return Update(set={**changes, **missing_places(run)}, remove=("deleted_time",))
