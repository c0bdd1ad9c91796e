"""Whether a registry can be used with workspaces switched off."""

from __future__ import annotations

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE
from mlflow_dynamodbstore.registry.items import name_of_guard
from mlflow_dynamodbstore.shared.refusals import invalid_state
from mlflow_dynamodbstore.shared.workspaces import all_workspaces
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table

_LISTED = (
    ("registered models", "model", access_keys.MODEL_NAMES, name_of_guard),
    ("webhooks", "webhook", access_keys.WEBHOOKS, lambda item: item["webhook_id"]),
)


def check_all_in_default_workspace(table: Table) -> None:
    """Refuse a table that has models or webhooks outside the default workspace."""
    for workspace in all_workspaces(table):
        if workspace == DEFAULT_WORKSPACE:
            continue
        for label, what, names, name_of in _LISTED:
            query = Query(access_keys.workspace_pk(workspace), where=names.on(), limit=1)
            first = next(table.items(query), None)
            if first is not None:
                raise invalid_state(
                    f"Cannot disable workspaces because {label} exist outside the default "
                    f"workspace (for example, {what} '{name_of(first)}' in workspace "
                    f"'{workspace}'). Either remove those {label.split()[-1]} or re-enable "
                    "workspaces before starting."
                )
