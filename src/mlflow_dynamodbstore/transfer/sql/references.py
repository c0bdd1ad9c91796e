"""Which experiments an entity lies in or refers to, by its kind."""

from __future__ import annotations

import json
from collections.abc import Iterator

from mlflow_dynamodbstore.table.values import Value
from mlflow_dynamodbstore.transfer.sql.entities import Entity
from mlflow_dynamodbstore.transfer.sql.gateway import COPY_OF_SCORER

_GRANTED = ("experiment", "scorer")
"""What is granted in an experiment: the pattern of the grant begins with its id."""
DATASETS = "evaluation datasets"
RECORDS = "evaluation records"


def experiments_of(kind: str, entity: Entity) -> set[str]:
    """The ids of the experiments that an entity lies in or refers to."""
    values = entity.values
    if kind == DATASETS:
        return set(map(str, values["experiments"]))
    if kind == "jobs":
        return set(_named_in(_parsed(values["params"])))
    if kind == "roles":
        granted = values["permissions"]
        return {pattern.partition("/")[0] for where, pattern in granted if where in _GRANTED}
    if kind == "gateway guardrails" and COPY_OF_SCORER in entity.hints:
        return {str(entity.hints[COPY_OF_SCORER]["scorer_experiment_id"])}
    return set() if entity.experiment_id is None else {entity.experiment_id}


def _parsed(text: str | None) -> Value:
    try:
        return json.loads(text or "null")
    except ValueError:
        return None  # MLflow did not write it


def _named_in(value: Value) -> Iterator[str]:
    """The experiments that the params of a job name."""
    if isinstance(value, list):
        for one in value:
            yield from _named_in(one)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name == "experiment_id" and isinstance(one, str):
                yield one
            else:
                yield from _named_in(one)
