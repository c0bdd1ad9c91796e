"""The workspace store that MLflow sees.

A workspace is one item in its own partition. CONFIG lists the names of workspaces, so that all of
them are found by consistent reads. The tracking store writes the item of the default workspace when
it opens a table; in a table that it has not opened yet, the default workspace exists without one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from mlflow.entities import Workspace
from mlflow.entities.workspace import TraceArchivalConfig, WorkspaceDeletionMode
from mlflow.exceptions import MlflowException
from mlflow.store.workspace.abstract_store import (
    AbstractStore,
    ResolvedTraceArchivalConfig,
    WorkspaceNameValidator,
)

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE
from mlflow_dynamodbstore.mlflow_compat.validation import (
    validate_trace_archival_repository_support,
    validate_trace_archival_retention_string,
)
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.shared.mlflow_errors import translates_errors
from mlflow_dynamodbstore.shared.names.claims import NameTakenError
from mlflow_dynamodbstore.shared.open_tables import open_table
from mlflow_dynamodbstore.shared.refusals import already_exists, invalid, invalid_state, not_found
from mlflow_dynamodbstore.shared.workspaces import (
    DEFAULT_DESCRIPTION,
    WorkspacesInUse,
    all_workspaces,
)
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.workspaces.resources import KINDS

_logger = logging.getLogger(__name__)

SETTINGS = (
    "description",
    "default_artifact_root",
    "trace_archival_location",
    "trace_archival_retention",
)


@translates_errors
class DynamoDBWorkspaceStore(AbstractStore):
    """MLflow's workspaces on one DynamoDB table, or on a file of the embedded engine."""

    def __init__(self, workspace_uri: str, *, table: Table | None = None):
        self.table = table or open_table(workspace_uri)

    # --- reading --------------------------------------------------------------------------------

    def list_workspaces(self) -> Iterable[Workspace]:
        keys = {name: access_keys.workspace_key(name) for name in all_workspaces(self.table)}
        found = self.table.get_many(keys.values())
        listed = [_workspace(name, found.get(key)) for name, key in sorted(keys.items())]
        return [workspace for workspace in listed if workspace is not None]

    def get_workspace(self, workspace_name: str) -> Workspace:
        item = self.table.get(access_keys.workspace_key(workspace_name))
        workspace = _workspace(workspace_name, item)
        if workspace is None:
            raise _not_found(workspace_name)
        return workspace

    def get_default_workspace(self) -> Workspace:
        return self.get_workspace(DEFAULT_WORKSPACE)

    def resolve_artifact_root(
        self, default_artifact_root: str | None, workspace_name: str
    ) -> tuple[str | None, bool]:
        own = self._settings(workspace_name).get("default_artifact_root")
        return (str(own), False) if own else (default_artifact_root, True)

    def resolve_trace_archival_config(
        self, default_trace_archival_root: str, default_retention: str, workspace_name: str
    ) -> ResolvedTraceArchivalConfig:
        settings = self._settings(workspace_name)
        location = settings.get("trace_archival_location")
        retention = settings.get("trace_archival_retention")
        return ResolvedTraceArchivalConfig(
            config=TraceArchivalConfig(
                location=str(location or default_trace_archival_root),
                retention=str(retention or default_retention),
            ),
            append_workspace_prefix=not location,
        )

    def _settings(self, workspace_name: str) -> Item:
        return self.table.get(access_keys.workspace_key(workspace_name)) or {}

    # --- writing --------------------------------------------------------------------------------

    def create_workspace(self, workspace: Workspace) -> Workspace:
        WorkspaceNameValidator.validate(workspace.name)
        settings = _changes(workspace).set
        taken = already_exists(f"Workspace '{workspace.name}' already exists.")
        if workspace.name == DEFAULT_WORKSPACE:
            raise taken
        # The entry in the list comes first: an entry without a workspace is ignored, a workspace
        # without an entry would be hidden.
        WorkspacesInUse(self.table).note(workspace.name)
        key = access_keys.workspace_key(workspace.name)
        try:
            self.table.put({"PK": key.pk, "SK": key.sk, **settings}, condition=ABSENT)
        except ConditionFailed as error:
            raise taken from error
        _logger.info("Created workspace '%s'", workspace.name)
        return self.get_workspace(workspace.name)

    def update_workspace(self, workspace: Workspace) -> Workspace:
        changes = _changes(workspace)
        is_default = workspace.name == DEFAULT_WORKSPACE
        try:
            item = self.table.update(
                access_keys.workspace_key(workspace.name),
                changes,
                condition=None if is_default else PRESENT,
                returns="new",
            )
        except ConditionFailed as error:
            raise _not_found(workspace.name) from error
        updated = _workspace(workspace.name, item)
        assert updated is not None
        _logger.info("Updated workspace '%s'", workspace.name)
        return updated

    # --- deleting -------------------------------------------------------------------------------

    def delete_workspace(
        self,
        workspace_name: str,
        mode: WorkspaceDeletionMode = WorkspaceDeletionMode.RESTRICT,
    ) -> None:
        if workspace_name == DEFAULT_WORKSPACE:
            raise invalid_state(f"Cannot delete the reserved '{workspace_name}' workspace")
        self.get_workspace(workspace_name)
        if mode == WorkspaceDeletionMode.RESTRICT:
            self._check_is_empty(workspace_name)
        elif mode == WorkspaceDeletionMode.CASCADE:
            self._remove_all(workspace_name)
        elif mode == WorkspaceDeletionMode.SET_DEFAULT:
            self._check_names_are_free(workspace_name)
            self._move_all(workspace_name)
        else:
            raise invalid(
                f"Invalid workspace deletion mode {mode!r}. "
                "Expected one of: RESTRICT, CASCADE, SET_DEFAULT."
            )
        self.table.delete(access_keys.workspace_key(workspace_name))
        _logger.info("Deleted workspace '%s' (mode=%s)", workspace_name, mode.value)

    def _check_is_empty(self, workspace_name: str) -> None:
        for kind in KINDS:
            count = sum(1 for _ in kind.items(self.table, workspace_name))
            if count:
                raise invalid_state(
                    f"Cannot delete workspace '{workspace_name}': table '{kind.label}' still "
                    f"contains {count} resource(s). Remove or reassign them before deleting the "
                    "workspace."
                )

    def _check_names_are_free(self, workspace_name: str) -> None:
        taken = [
            f"  - {kind.label}: {name!r}"
            for kind in KINDS
            for name in kind.conflicts(self.table, workspace_name)
        ]
        if taken:
            raise invalid_state(
                f"Cannot reassign resources from workspace '{workspace_name}' to "
                f"'{DEFAULT_WORKSPACE}': the following names already exist in the default "
                "workspace and would cause conflicts:\n" + "\n".join(taken) + "\n"
                "Rename or remove the conflicting resources before retrying."
            )

    def _remove_all(self, workspace_name: str) -> None:
        for kind in KINDS:
            for item in list(kind.items(self.table, workspace_name)):
                kind.remove(self.table, workspace_name, item)

    def _move_all(self, workspace_name: str) -> None:
        for kind in KINDS:
            for item in list(kind.items(self.table, workspace_name)):
                try:
                    kind.move(self.table, workspace_name, item)
                except (TransactionCancelled, NameTakenError):
                    # A name may have been taken since the first check.
                    self._check_names_are_free(workspace_name)
                    raise


def _changes(workspace: Workspace) -> Update:
    """The change to the given settings, empty ones cleared; raises for invalid ones."""
    given = {name: value for name in SETTINGS if (value := getattr(workspace, name)) is not None}
    if location := given.get("trace_archival_location"):
        given["trace_archival_location"] = validate_trace_archival_repository_support(
            location, parameter_name="trace_archival_location"
        )
    if retention := given.get("trace_archival_retention"):
        given["trace_archival_retention"] = validate_trace_archival_retention_string(retention)
    kept = {name: value for name, value in given.items() if value or name == "description"}
    return Update(set=kept, remove=tuple(name for name in given if name not in kept))


def _workspace(name: str, item: Item | None) -> Workspace | None:
    """The workspace as MLflow shows it; None if there is none."""
    if name == DEFAULT_WORKSPACE:
        item = {"description": DEFAULT_DESCRIPTION, **(item or {})}
    if item is None:
        return None
    return Workspace(name, **{setting: item.get(setting) for setting in SETTINGS})


def _not_found(workspace_name: str) -> MlflowException:
    return not_found(f"Workspace '{workspace_name}' not found")
