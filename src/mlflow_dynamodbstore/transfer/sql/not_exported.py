"""What a table holds that is not exported to a database, counted by ranges of its keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import jobs as job_keys
from mlflow_dynamodbstore.keys import reviews as review_keys
from mlflow_dynamodbstore.keys.item_kinds import describe_item
from mlflow_dynamodbstore.shared.workspaces import all_workspaces
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.transfer.sql.items import TransferTable

IN_WORKSPACES: Mapping[str, str] = {
    "MCP server name": "MCP servers",
    "Gateway secret": "gateway secrets",
    "Gateway model definition": "gateway model definitions",
    "Gateway endpoint": "gateway endpoints",
    "Gateway budget policy": "gateway budget policies",
    "Gateway guardrail": "gateway guardrails",
}
"""The kinds of items that are counted in a workspace's partition, and what they are called."""
IN_EXPERIMENTS = {
    "label schemas": review_keys.label_schemas_by_age(),
    "review queues": review_keys.review_queues_by_age(),
}
"""The ranges of LSI1 that are counted in an experiment's partition."""


def not_exported(table: Table) -> Counter[str]:
    """How many entities of each kind stay in the table."""
    found: Counter[str] = Counter()
    for workspace in all_workspaces(table):
        for item in table.items(Query(access_keys.workspace_pk(workspace))):
            label = IN_WORKSPACES.get(describe_item(item).kind)
            found.update([] if label is None else [label])
        found["jobs"] += _count(table, Query(job_keys.jobs_pk(workspace)))
    for experiment_id in TransferTable(table).experiment_ids():
        pk = experiment_keys.experiment_pk(experiment_id)
        for label, within in IN_EXPERIMENTS.items():
            found[label] += _count(table, Query(pk, within.on("lsi1sk"), "LSI1", keys_only=True))
    return Counter({label: count for label, count in found.items() if count})


def _count(table: Table, query: Query) -> int:
    return sum(1 for _ in table.items(query))
