"""Lists of the experiments that have issues or scorers, so that the others are not asked for them.

An experiment is listed from its first issue or scorer until it is removed. The lists do not name
workspaces, so they stay true when an experiment moves to another one.
"""

from __future__ import annotations

from mlflow_dynamodbstore.keys import evaluation as evaluation_keys
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table


def listed_experiments(table: Table, pk: str) -> list[str]:
    """The experiments that a list names, of all workspaces."""
    found = table.items(Query(pk, where=evaluation_keys.LISTED_EXPERIMENTS.on()))
    return [str(evaluation_keys.listed_experiment_of(str(item["SK"]))) for item in found]
