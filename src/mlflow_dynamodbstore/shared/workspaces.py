"""Which workspaces of a table are in use, and the experiments in them, by consistent reads."""

from __future__ import annotations

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE
from mlflow_dynamodbstore.table.contract import Put, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item

DEFAULT_DESCRIPTION = "Default workspace"


def default_workspace() -> Item:
    """The own item of the default workspace, as it is first written."""
    key = access_keys.workspace_key(DEFAULT_WORKSPACE)
    return {"PK": key.pk, "SK": key.sk, "description": DEFAULT_DESCRIPTION}


def all_workspaces(table: Table) -> list[str]:
    """Every workspace that was created or used, the default one first."""
    entries = table.items(Query(access_keys.CONFIG_PK, where=access_keys.WORKSPACES.on()))
    named = {str(access_keys.workspace_entry_of(str(entry["SK"]))) for entry in entries}
    return [DEFAULT_WORKSPACE, *sorted(named - {DEFAULT_WORKSPACE})]


def all_experiments(table: Table) -> list[str]:
    """The ids of the experiments of all workspaces, deleted ones included."""
    return [
        str(guard["experiment_id"])
        for workspace in all_workspaces(table)
        for guard in table.items(
            Query(access_keys.workspace_pk(workspace), where=access_keys.EXPERIMENT_NAMES.on())
        )
    ]


class WorkspacesInUse:
    """The list of workspaces that something was ever written to, kept in the table."""

    def __init__(self, table: Table):
        self._table = table
        self._noted = {DEFAULT_WORKSPACE}

    def note(self, workspace: str) -> None:
        """List a workspace; to be called before anything is written to it."""
        if workspace not in self._noted:
            key = access_keys.workspace_entry_key(workspace)
            self._table.write([Put({"PK": key.pk, "SK": key.sk})])
            self._noted.add(workspace)
