"""Lists of the experiments that have something, so that nobody asks all the others for it.

An experiment is listed from its first issue or scorer on, for as long as it is there. Workspaces
are not mentioned, so that nothing has to follow when an experiment moves to another.
"""

from __future__ import annotations

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table


def listed_experiments(table: Table, pk: str) -> list[str]:
    """The experiments of the whole table that a list names."""
    found = table.items(Query(pk, where=experiment_keys.LISTED_EXPERIMENTS.on()))
    return [str(experiment_keys.listed_experiment_of(str(item["SK"]))) for item in found]
