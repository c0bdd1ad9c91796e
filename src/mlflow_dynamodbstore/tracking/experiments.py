"""Experiments: create, rename, tag, delete, restore."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.entities import Experiment, ExperimentTag
from mlflow.entities.lifecycle_stage import LifecycleStage
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import (
    INVALID_STATE,
    RESOURCE_ALREADY_EXISTS,
    RESOURCE_DOES_NOT_EXIST,
)
from mlflow.store.workspace.utils import get_default_workspace_optional
from mlflow.utils.time import get_current_time_millis
from mlflow.utils.uri import resolve_uri_if_local
from mlflow.utils.validation import (
    _validate_experiment_artifact_location_length,
    _validate_experiment_name,
    _validate_experiment_tag,
)

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE
from mlflow_dynamodbstore.shared.bulk import empty_partition
from mlflow_dynamodbstore.shared.policies import SOFT_DELETED_RETENTION
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query, TransactWrite
from mlflow_dynamodbstore.table.errors import ConditionFailed, Refusal, TransactionCancelled
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import TTL, Item, Key
from mlflow_dynamodbstore.table.versions import upgrade_of
from mlflow_dynamodbstore.tracking.experiment_items import (
    NewExperiment,
    Tags,
    entry_item,
    entry_key,
    name_rev_item,
    tag_change,
    tag_item,
    tag_removal,
)
from mlflow_dynamodbstore.tracking.experiment_search import ANY_STAGE, ExperimentSearch
from mlflow_dynamodbstore.tracking.items import experiment_id_of, run_id_of
from mlflow_dynamodbstore.tracking.lookups import RunFacts, batched, start_time_of
from mlflow_dynamodbstore.tracking.runs import Runs

_logger = logging.getLogger(__name__)

RUNS_TO = "runs_to"
"""Attribute of META: the stage its runs are being brought to; gone once all are there."""
RUNS_AT_ONCE = 500
ACTIVE, DELETED = LifecycleStage.ACTIVE, LifecycleStage.DELETED


class Experiments(ExperimentSearch, Runs):
    """The experiments of a workspace."""

    def create_experiment(
        self,
        name: str,
        artifact_location: str | None = None,
        tags: Sequence[ExperimentTag] | None = None,
    ) -> str:
        if artifact_location and self._workspaces_enabled():
            raise MlflowException.invalid_parameter_value(
                "artifact_location cannot be specified when workspaces are enabled"
            )
        _validate_experiment_name(name)
        if artifact_location:
            artifact_location = resolve_uri_if_local(artifact_location)
            _validate_experiment_artifact_location_length(artifact_location)
        for tag in tags or []:
            _validate_experiment_tag(tag.key, tag.value)
        workspace = self._get_active_workspace()
        # Looked at first so that a name that is taken does not use up a number.
        if self.table.get(access_keys.experiment_name_guard(name, workspace)) is not None:
            raise _name_is_taken(name)
        self._note_workspace(workspace)
        values = {tag.key: tag.value for tag in tags or []}
        return self._create(name, workspace, artifact_location, values)

    def _create(self, name: str, workspace: str, artifact_location: str | None, tags: Tags) -> str:
        while True:
            experiment_id = self._next_experiment_id()
            location = artifact_location or self._artifact_location(experiment_id, workspace)
            now = get_current_time_millis()
            wanted = self.policies.denormalises
            new = NewExperiment(experiment_id, name, workspace, location, now, tags, wanted)
            if self._write_new(new):
                return experiment_id

    def _next_experiment_id(self) -> str:
        """A number that no experiment has; one that was imported may have taken a number."""
        while True:
            counter = self.table.update(
                access_keys.sequence_key("experiment"), Update(add={"value": 1}), returns="new"
            )
            assert counter is not None
            experiment_id = str(counter["value"])
            if self.table.get(experiment_keys.experiment_key(experiment_id)) is None:
                return experiment_id

    def _write_new(self, new: NewExperiment) -> bool:
        """Write an experiment; False when its number is in use. Raises when its name is."""
        free = Attr("PK").not_exists()
        tags = new.tag_items()
        self._names.enter(new.workspace, new.experiment_id, new.name)
        # The tags first: until the experiment itself is there, nobody sees them.
        self.table.write([Put(item) for item in tags])
        try:
            self.table.transact(
                [
                    Put(new.meta(), condition=free),
                    Put(new.entry(), condition=free),
                    Put(name_rev_item(new.experiment_id, new.name)),
                ]
            )
        except TransactionCancelled as error:
            number_taken, name_taken, _ = error.reasons
            if _refused(number_taken):
                return False
            self.table.write([Delete(self.table.schema.key_of(item)) for item in tags])
            if _refused(name_taken):
                raise _name_is_taken(new.name) from error
            raise
        self._note_experiment(new.meta())
        self._names.enter(new.workspace, new.experiment_id, new.name)
        return True

    def rename_experiment(self, experiment_id: str | int, new_name: str) -> None:
        _validate_experiment_name(new_name)
        while True:
            meta = self._experiment_item(experiment_id, ANY_STAGE)
            if meta["lifecycle"] != ACTIVE:
                raise MlflowException("Cannot rename a non-active experiment.", INVALID_STATE)
            if self._rename(meta, new_name):
                return

    def _rename(self, meta: Item, new_name: str) -> bool:
        """Rename an experiment as it was read; False when it has changed since."""
        experiment_id, workspace = experiment_id_of(meta), str(meta["workspace"])
        now = get_current_time_millis()
        index = index_keys.experiment_index(
            experiment_id=experiment_id, name=new_name, workspace=workspace
        )
        entry = entry_item(
            new_name,
            workspace,
            {
                "experiment_id": experiment_id,
                "lifecycle": ACTIVE,
                "creation_time": meta["creation_time"],
                "last_update_time": now,
            },
        )
        own = Attr("experiment_id").eq(experiment_id)
        writes: list[TransactWrite] = [
            Patch(
                self.table.schema.key_of(meta),
                Update(
                    set={
                        **upgrade_of(meta),
                        "name": new_name,
                        "last_update_time": now,
                        **index,
                    }
                ),
                condition=Attr("name").eq(meta["name"]) & Attr("lifecycle").eq(ACTIVE),
            ),
            Put(entry, condition=Attr("PK").not_exists() | own),
            Put(name_rev_item(experiment_id, new_name)),
        ]
        if new_name != meta["name"]:
            writes.append(Delete(entry_key(meta)))
        self._names.enter(workspace, experiment_id, new_name)
        try:
            self.table.transact(writes)
        except TransactionCancelled as error:
            if _refused(error.reasons[0]):
                return False
            if _refused(error.reasons[1]):
                raise _name_is_taken(new_name) from error
            raise
        self._names.enter(workspace, experiment_id, new_name)
        kept = self._names.entries(workspace, experiment_id, new_name)
        self._names.leave(workspace, experiment_id, str(meta["name"]), kept)
        return True

    # --- tags -----------------------------------------------------------------------------------

    def set_experiment_tag(self, experiment_id: str | int, tag: ExperimentTag) -> None:
        _validate_experiment_tag(tag.key, tag.value)
        while True:
            meta = self._active_experiment(experiment_id)
            item = tag_item(str(meta["PK"]), tag.key, tag.value)
            change = tag_change(meta, tag.key, tag.value, self.policies.denormalises)
            if _changed(self.table, meta, change, Put(item)):
                return

    def delete_experiment_tag(self, experiment_id: str | int, key: str) -> None:
        while True:
            meta = self._active_experiment(experiment_id)
            place = Key(str(meta["PK"]), experiment_keys.experiment_tag(key))
            removal = Delete(place, condition=Attr("PK").exists())
            try:
                if _changed(self.table, meta, tag_removal(key), removal):
                    return
            except TransactionCancelled as error:
                if not _refused(error.reasons[1]):
                    raise
                raise MlflowException(
                    f"No tag with name: {key} in experiment with id {experiment_id}",
                    error_code=RESOURCE_DOES_NOT_EXIST,
                ) from error

    # --- deleting and restoring -----------------------------------------------------------------

    def delete_experiment(self, experiment_id: str | int) -> None:
        meta = self._turned(experiment_id, ACTIVE, DELETED)
        self._forget_experiment(experiment_id_of(meta))
        # Who saw the experiment active may have begun a run behind the walk: look until none is.
        while self._delete_runs(meta) and self._is_on_its_way(meta, DELETED):
            pass
        self._runs_are_there(meta, DELETED)

    def _delete_runs(self, meta: Item) -> bool:
        """Give the active runs of a deleted experiment its stage; whether to look for others.

        Nothing is left to do once there is none, or when the experiment is no longer deleted.
        """
        found = False
        for runs in batched(self._runs_in(meta, ACTIVE), RUNS_AT_ONCE):
            found = True
            if not self._stays(meta, self._change_runs(runs, DELETED), DELETED):
                return False
            self.table.map(lambda run: self._delete_assessments_of_run(run_id_of(run)), runs)
        return found

    def restore_experiment(self, experiment_id: str | int) -> None:
        meta = self._turned(experiment_id, DELETED, ACTIVE)
        for runs in batched(self._runs_in(meta, DELETED), RUNS_AT_ONCE):
            alone = [run for run in runs if _was_deleted_by_itself(run)]
            for run in alone:
                self._restore(RunFacts.of(run))
            others = [run for run in runs if not _was_deleted_by_itself(run)]
            if not self._stays(meta, alone + self._change_runs(others, ACTIVE), ACTIVE):
                return
        self._runs_are_there(meta, ACTIVE)

    def _turned(self, experiment_id: str | int, before: str, after: str) -> Item:
        """Bring an experiment from one stage to the other.

        The experiment goes first, so that no runs are begun in it while its runs follow. Should
        that be interrupted, META still says so, and the same call made again goes on.
        """
        while True:
            meta = self._experiment_item(experiment_id, ANY_STAGE)
            if meta.get(RUNS_TO) == after:
                return meta
            if meta["lifecycle"] != before:
                raise MlflowException(
                    f"No Experiment with id={experiment_id_of(meta)} exists",
                    RESOURCE_DOES_NOT_EXIST,
                )
            if self._turn(meta, after):
                return meta

    def _turn(self, meta: Item, stage: str) -> bool:
        """Give an experiment as it was read another stage; False when it has changed since.

        A deleted experiment expires, and its name is free again at the same moment.
        """
        ttl = self.policies.expiry(SOFT_DELETED_RETENTION) if stage == DELETED else None
        changes: Item = {"lifecycle": stage, "last_update_time": get_current_time_millis()}
        if ttl is not None:
            changes[TTL] = ttl
        undated = () if ttl is not None else (TTL,)
        same = Attr("name").eq(meta["name"]) & Attr("lifecycle").eq(meta["lifecycle"])
        own = Attr("experiment_id").eq(experiment_id_of(meta))
        try:
            self.table.transact(
                [
                    Patch(
                        self.table.schema.key_of(meta),
                        Update(set={**upgrade_of(meta), **changes, RUNS_TO: stage}, remove=undated),
                        condition=same,
                    ),
                    Patch(entry_key(meta), Update(set=changes, remove=undated), condition=own),
                ]
            )
        except TransactionCancelled as error:
            if any(_refused(reason) for reason in error.reasons):
                return False
            raise
        return True

    def _runs_in(self, meta: Item, stage: str) -> Iterable[Item]:
        where = index_keys.runs_by_lifecycle(stage).on("lsi1sk")
        return self.table.items(
            Query(str(meta["PK"]), where=where, index="LSI1", limit=RUNS_AT_ONCE)
        )

    def _change_runs(self, runs: Sequence[Item], stage: str) -> list[Item]:
        """Give runs another stage, and no expiry: they stay as long as their experiment does.

        Returns those that had the stage they were read with. One that was deleted by itself since
        then expires, and stays deleted.
        """
        now = self._now_ms()
        outcomes = self.table.write(
            [
                Patch(
                    self.table.schema.key_of(run),
                    _run_in_stage(run, stage, now),
                    condition=_is_as_read(run),
                )
                for run in runs
            ]
        )
        for run in runs:
            self._admitted.forget(run_id_of(run))
        return [run for run, done in zip(runs, outcomes, strict=True) if done.status == "applied"]

    def _stays(self, meta: Item, runs: Sequence[Item], stage: str) -> bool:
        """Whether an experiment still has the stage that some of its runs were just given.

        If not, whoever turned it round may have passed these runs before: they follow it here.
        """
        given = stage
        while (now := self._stage_of(meta)) not in (None, given):
            self._change_runs([{**run, "lifecycle": given} for run in runs], str(now))
            given = str(now)
        return now == stage

    def _stage_of(self, meta: Item) -> str | None:
        """The stage that an experiment has now; None when it is gone."""
        now = self.table.get(self.table.schema.key_of(meta))
        return None if now is None else str(now["lifecycle"])

    def _is_on_its_way(self, meta: Item, stage: str) -> bool:
        """Whether an experiment's runs are still to be brought to a stage."""
        now = self.table.get(self.table.schema.key_of(meta))
        return now is not None and now.get(RUNS_TO) == stage

    def _runs_are_there(self, meta: Item, stage: str) -> None:
        key = self.table.schema.key_of(meta)
        try:
            self.table.update(key, Update(remove=(RUNS_TO,)), condition=Attr(RUNS_TO).eq(stage))
        except ConditionFailed:
            return  # somebody has turned the experiment round meanwhile, or removed it

    def _hard_delete_experiment(self, experiment_id: str | int) -> None:
        """Remove a deleted experiment and all that belongs to it, for good; for ``mlflow gc``."""
        meta = self._experiment_item(experiment_id, {DELETED})
        key = self.table.schema.key_of(meta)
        # The experiment last: until then a second try finds it and goes on.
        empty_partition(self.table, key.pk, keep=frozenset({key.sk}))
        own = Attr("experiment_id").eq(experiment_id_of(meta)) | Attr("PK").not_exists()
        self.table.transact(
            [
                Delete(key, condition=Attr("lifecycle").eq(DELETED)),
                Delete(entry_key(meta), condition=own),
            ]
        )
        self._names.leave(str(meta["workspace"]), experiment_id_of(meta), str(meta["name"]))

    # --- the default experiment -----------------------------------------------------------------

    def _ensure_default_experiment(self) -> None:
        """Make sure the default experiment exists when a store is opened."""
        if not self._workspaces_enabled():
            self._check_nothing_is_hidden()
            self._create_default_experiment(DEFAULT_WORKSPACE)
            return
        self._check_artifact_root()
        workspace, supported = get_default_workspace_optional(self._workspace_provider())
        if not supported:
            _logger.warning("The workspace provider has no default workspace: no experiment made.")
        if workspace is not None:
            self._create_default_experiment(workspace.name)

    def _create_default_experiment(self, workspace: str) -> None:
        """Create the default experiment of a workspace, unless it exists.

        In the default workspace its number is 0, whatever its name has become. Where many
        processes start at once, one of them writes it.
        """
        name = Experiment.DEFAULT_EXPERIMENT_NAME
        in_default = workspace == DEFAULT_WORKSPACE
        known = (
            experiment_keys.experiment_key(self.DEFAULT_EXPERIMENT_ID)
            if in_default
            else access_keys.experiment_name_guard(name, workspace)
        )
        if (found := self.table.get(known)) is not None:
            if in_default:
                self._note_experiment(found)
            return
        try:
            if in_default:
                location = self._artifact_location(self.DEFAULT_EXPERIMENT_ID, workspace)
                now = get_current_time_millis()
                self._write_new(
                    NewExperiment(self.DEFAULT_EXPERIMENT_ID, name, workspace, location, now)
                )
            else:
                self._note_workspace(workspace)
                self._create(name, workspace, None, {})
        except MlflowException:
            if self.table.get(known) is None:
                raise


def _changed(table: Table, meta: Item, change: Update, item: Put | Delete) -> bool:
    """Change META and a tag's own item together; False when META is no longer active."""
    active = Attr("lifecycle").eq(ACTIVE)
    try:
        table.transact([Patch(table.schema.key_of(meta), change, condition=active), item])
    except TransactionCancelled as error:
        if _refused(error.reasons[0]):
            return False
        raise
    return True


def _was_deleted_by_itself(run: Item) -> bool:
    """Whether a run was deleted before its experiment was, which dated its items too."""
    return TTL in run


def _is_as_read(run: Item) -> ConditionBase:
    """That a run still has the stage it was read with, and was not deleted by itself since."""
    same = Attr("lifecycle").eq(run["lifecycle"])
    return same if run["lifecycle"] == ACTIVE else same & Attr(TTL).not_exists()


def _run_in_stage(run: Item, stage: str, now_ms: int) -> Update:
    in_stage = index_keys.lsi1_run(run_id_of(run), stage, start_time_of(run))
    changes: Item = {"lifecycle": stage, "lsi1sk": in_stage}
    if stage == DELETED:
        return Update(set={**changes, "deleted_time": now_ms})
    return Update(set=changes, remove=("deleted_time",))


def _refused(reason: Refusal | None) -> bool:
    return reason is not None and reason.code == "ConditionFailed"


def _name_is_taken(name: str) -> MlflowException:
    return MlflowException(
        f"Experiment(name={name}) already exists. Error: the name is taken, maybe by a deleted "
        "experiment.",
        RESOURCE_ALREADY_EXISTS,
    )
