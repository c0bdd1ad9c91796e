"""What a table holds that is not moved to a database, counted by ranges of its keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import jobs as job_keys
from mlflow_dynamodbstore.keys import reviews as review_keys
from mlflow_dynamodbstore.keys.item_kinds import describe_item
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.transfer.sql.items import Shelf

IN_WORKSPACES: Mapping[str, str] = {
    "MCP server name": "MCP servers",
    "Gateway secret": "gateway secrets",
    "Gateway model definition": "gateway model definitions",
    "Gateway endpoint": "gateway endpoints",
    "Gateway budget policy": "gateway budget policies",
    "Gateway guardrail": "gateway guardrails",
}
"""What is counted in the partition of a workspace, by what its items are called."""


def left_in_table(shelf: Shelf) -> Counter[str]:
    """How many things of each kind stay in the table alone."""
    found: Counter[str] = Counter()
    for workspace in shelf.workspaces():
        for item in shelf.table.items(Query(access_keys.workspace_pk(workspace))):
            label = IN_WORKSPACES.get(describe_item(item).kind)
            found.update([] if label is None else [label])
        found["jobs"] += _count(shelf, Query(job_keys.jobs_pk(workspace)))
    for experiment_id in shelf.experiment_ids():
        pk = experiment_keys.experiment_pk(experiment_id)
        for label, within in _BY_AGE.items():
            found[label] += _count(shelf, Query(pk, within.on("lsi1sk"), "LSI1", keys_only=True))
    return Counter({label: count for label, count in found.items() if count})


_BY_AGE = {
    "label schemas": review_keys.label_schemas_by_age(),
    "review queues": review_keys.review_queues_by_age(),
}


def _count(shelf: Shelf, query: Query) -> int:
    return sum(1 for _ in shelf.table.items(query))
