"""Experiments: create, rename, tag."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from boto3.dynamodb.conditions import Attr
from mlflow.entities import Experiment, ExperimentTag
from mlflow.entities.lifecycle_stage import LifecycleStage
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import (
    RESOURCE_ALREADY_EXISTS,
    ErrorCode,
)
from mlflow.store.workspace.utils import get_default_workspace_optional
from mlflow.utils.time import get_current_time_millis
from mlflow.utils.uri import resolve_uri_if_local

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE
from mlflow_dynamodbstore.mlflow_compat.validation import (
    parse_experiment_id,
    validate_experiment_artifact_location_length,
    validate_experiment_name,
    validate_experiment_tag,
)
from mlflow_dynamodbstore.shared.conditions import ABSENT, IS_ACTIVE, PRESENT, names_experiment
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_items import (
    NewExperiment,
    Tags,
    entry_item,
    entry_key,
    name_rev_item,
    tag_change,
    tag_item,
    tag_removal,
)
from mlflow_dynamodbstore.shared.experiment_lookup import DEFAULT_EXPERIMENT_ID, ExperimentLookup
from mlflow_dynamodbstore.shared.optimistic import Outdated, optimistically
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.shared.plain_values import optional_text
from mlflow_dynamodbstore.shared.refusals import already_exists, invalid, invalid_state, not_found
from mlflow_dynamodbstore.shared.search.name_index import NameIndex
from mlflow_dynamodbstore.shared.workspaces import WorkspacesInUse, default_workspace
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, TransactWrite
from mlflow_dynamodbstore.table.errors import AccessDenied, ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.table.versions import upgrade_of
from mlflow_dynamodbstore.tracking.workspace_mode import WorkspaceMode

_logger = logging.getLogger(__name__)

ACTIVE = LifecycleStage.ACTIVE


class Experiments:
    """The experiments of a workspace."""

    def __init__(
        self,
        context: Context,
        experiment_lookup: ExperimentLookup,
        workspaces_in_use: WorkspacesInUse,
        experiment_names: NameIndex,
        workspace_mode: WorkspaceMode,
    ) -> None:
        self.context = context
        self.table = context.table
        self.policies = context.policies
        self.experiment_lookup = experiment_lookup
        self.workspaces_in_use = workspaces_in_use
        self.experiment_names = experiment_names
        self.workspace_mode = workspace_mode

    def create_experiment(
        self,
        name: str,
        artifact_location: str | None = None,
        tags: Sequence[ExperimentTag] | None = None,
    ) -> str:
        if artifact_location and self.context.has_workspaces():
            raise invalid("artifact_location cannot be specified when workspaces are enabled")
        validate_experiment_name(name)
        if artifact_location:
            artifact_location = resolve_uri_if_local(artifact_location)
            validate_experiment_artifact_location_length(artifact_location)
        for tag in tags or []:
            validate_experiment_tag(tag.key, optional_text(tag.value, "a tag"))
        workspace = self.context.workspace()
        # A name that is taken must not use up a number.
        if self.table.get(access_keys.experiment_name_guard(name, workspace)) is not None:
            raise _name_is_taken(name)
        self.workspaces_in_use.note(workspace)
        values = {tag.key: optional_text(tag.value, "a tag") for tag in tags or []}
        return self._create(name, workspace, artifact_location, values)

    def get_or_create_experiment(self, name: str, tags: list[ExperimentTag]) -> str:
        """The id of the experiment with a name; created with these tags if there is none."""
        try:
            return self.create_experiment(name, tags=tags)
        except MlflowException as error:
            if error.error_code != ErrorCode.Name(RESOURCE_ALREADY_EXISTS):
                raise
            guard = access_keys.experiment_name_guard(name, self.context.workspace())
            found = self.table.get(guard)
            if found is None:
                raise
            return str(found["experiment_id"])

    def _create(self, name: str, workspace: str, artifact_location: str | None, tags: Tags) -> str:
        def attempt() -> str:
            experiment_id = self._next_experiment_id()
            location = artifact_location or self.workspace_mode.artifact_location(
                experiment_id, workspace
            )
            now = get_current_time_millis()
            holds_tag = self.policies.denormalises
            new = NewExperiment(experiment_id, name, workspace, location, now, tags, holds_tag)
            self._write_new(new)
            return experiment_id

        return optimistically("The counter of experiments", attempt)

    def _next_experiment_id(self) -> str:
        """A number that no experiment has."""
        while True:  # without a bound: imported experiments may have taken any number of these
            counter = self.table.update(
                access_keys.sequence_key("experiment"), Update(add={"value": 1}), returns="new"
            )
            assert counter is not None
            experiment_id = str(counter["value"])
            if self.table.get(experiment_keys.experiment_key(experiment_id)) is None:
                return experiment_id

    def _write_new(self, new: NewExperiment) -> None:
        """Write an experiment; raises ``Outdated`` when its number is taken."""
        new = replace(new, volumes=self.table.engine.capabilities.spread)
        tags = new.tag_items()
        self.experiment_names.enter(new.workspace, new.experiment_id, new.name)
        # The tags first: nobody sees them until the experiment itself exists.
        self.table.write([Put(item) for item in tags])
        try:
            self.table.transact(
                [
                    Put(new.meta(), condition=ABSENT),
                    Put(new.entry(self.context.now_ms()), condition=ABSENT),
                    Put(new.name_rev()),
                ]
            )
        except TransactionCancelled as error:
            if error.refused(0):
                raise Outdated from error
            self.table.write([Delete(self.table.schema.key_of(item)) for item in tags])
            if error.refused(1):
                raise _name_is_taken(new.name) from error
            raise
        self.experiment_lookup.note(new.meta())
        self.experiment_names.enter(new.workspace, new.experiment_id, new.name)

    def rename_experiment(self, experiment_id: str | int, new_name: str) -> None:
        validate_experiment_name(new_name)

        def attempt() -> None:
            meta = self.experiment_lookup.get(experiment_id)
            if meta["lifecycle"] != ACTIVE:
                raise invalid_state("Cannot rename a non-active experiment.")
            self._rename(meta, new_name)

        optimistically(f"Experiment {experiment_id}", attempt)

    def _rename(self, meta: Item, new_name: str) -> None:
        """Rename an experiment, unless it has changed since it was read."""
        experiment_id, workspace = experiment_id_of(meta), str(meta["workspace"])
        now = get_current_time_millis()
        index = index_keys.experiment_index(
            experiment_id=experiment_id, name=new_name, workspace=workspace
        )
        entry = entry_item(
            new_name,
            workspace,
            experiment_id,
            {
                "lifecycle": ACTIVE,
                "creation_time": meta["creation_time"],
                "last_update_time": now,
            },
            now_ms=self.context.now_ms(),
        )
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
                condition=Attr("name").eq(meta["name"]) & IS_ACTIVE,
            ),
            Put(entry, condition=ABSENT | names_experiment(experiment_id)),
            Put(name_rev_item(experiment_id, new_name, workspace)),
        ]
        if new_name != meta["name"]:
            writes.append(Delete(entry_key(meta)))
        self.experiment_names.enter(workspace, experiment_id, new_name)
        try:
            self.table.transact(writes)
        except TransactionCancelled as error:
            if error.refused(1) and not error.refused(0):
                raise _name_is_taken(new_name) from error
            raise
        self.experiment_names.enter(workspace, experiment_id, new_name)
        kept = self.experiment_names.entries(workspace, experiment_id, new_name)
        self.experiment_names.leave(workspace, experiment_id, str(meta["name"]), kept)

    # --- tags -----------------------------------------------------------------------------------

    def set_experiment_tag(self, experiment_id: str | int, tag: ExperimentTag) -> None:
        tag = ExperimentTag(tag.key, optional_text(tag.value, "a tag"))
        validate_experiment_tag(tag.key, tag.value)

        def attempt() -> None:
            meta = self.experiment_lookup.get_active(experiment_id)
            item = tag_item(str(meta["PK"]), tag.key, tag.value)
            change = tag_change(meta, tag.key, tag.value, self.policies.denormalises)
            self._write_tag(meta, change, Put(item))

        optimistically(f"Experiment {experiment_id}", attempt)

    def delete_experiment_tag(self, experiment_id: str | int, key: str) -> None:
        parse_experiment_id(experiment_id)  # an empty one is not that of the default experiment

        def attempt() -> None:
            meta = self.experiment_lookup.get_active(experiment_id)
            tag_key = Key(str(meta["PK"]), experiment_keys.experiment_tag(key))
            try:
                self._write_tag(meta, tag_removal(key), Delete(tag_key, condition=PRESENT))
            except TransactionCancelled as error:
                if error.refused(0) or not error.refused(1):
                    raise
                raise not_found(
                    f"No tag with name: {key} in experiment with id {experiment_id}"
                ) from error

        optimistically(f"Experiment {experiment_id}", attempt)

    def _write_tag(self, meta: Item, change: Update, item: Put | Delete) -> None:
        """Change META and a tag's own item together, unless the experiment is no longer active."""
        key = self.table.schema.key_of(meta)
        self.table.transact([Patch(key, change, condition=IS_ACTIVE), item])

    # --- the default experiment -----------------------------------------------------------------

    def ensure_default_experiment(self) -> None:
        """Make sure the default experiment exists when a store is opened."""
        if not self.context.has_workspaces():
            self.workspace_mode.check_no_hidden_experiments()
            self._create_default_experiment(DEFAULT_WORKSPACE)
            return
        self.workspace_mode.check_artifact_root()
        workspace, supported = get_default_workspace_optional(
            self.workspace_mode.workspace_provider()
        )
        if not supported:
            _logger.warning(
                "The workspace provider has no default workspace: no experiment is made."
            )
        if workspace is not None:
            self._create_default_experiment(workspace.name)

    def _create_default_experiment(self, workspace: str) -> None:
        """Create the default experiment of a workspace, unless it exists.

        In the default workspace its number is 0, whatever its name is now. Of processes that start
        at the same time, one writes it.
        """
        name = Experiment.DEFAULT_EXPERIMENT_NAME
        in_default = workspace == DEFAULT_WORKSPACE
        known = (
            experiment_keys.experiment_key(DEFAULT_EXPERIMENT_ID)
            if in_default
            else access_keys.experiment_name_guard(name, workspace)
        )
        own = access_keys.workspace_key(DEFAULT_WORKSPACE)
        read = self.table.get_many((known, own))
        if own not in read:
            self._create_default_workspace()
        if (found := read.get(known)) is not None:
            if in_default:
                self.experiment_lookup.note(found)
            return
        try:
            if in_default:
                location = self.workspace_mode.artifact_location(DEFAULT_EXPERIMENT_ID, workspace)
                now = get_current_time_millis()
                self._write_new(
                    NewExperiment(DEFAULT_EXPERIMENT_ID, name, workspace, location, now)
                )
            else:
                self.workspaces_in_use.note(workspace)
                self._create(name, workspace, None, {})
        except Outdated:
            return  # another process wrote it
        except MlflowException:
            if self.table.get(known) is None:
                raise

    def _create_default_workspace(self) -> None:
        """Write the item of the default workspace, unless it exists or the caller may only read."""
        try:
            self.table.put(default_workspace(), condition=ABSENT)
        except ConditionFailed:
            return  # another process wrote it
        except AccessDenied as error:
            _logger.debug("the default workspace has no item yet: %s", error)


def _name_is_taken(name: str) -> MlflowException:
    return already_exists(
        f"Experiment(name={name}) already exists. Error: the name is taken, perhaps by a "
        "deleted experiment."
    )
