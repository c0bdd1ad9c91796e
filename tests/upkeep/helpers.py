"""Things to put into a store, in one call each."""

from __future__ import annotations

from mlflow.entities import Metric, Param, RunStatus, RunTag

from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.stores import everything_in


def make_run(
    store: DynamoDBTrackingStore,
    experiment_id: str = "0",
    *,
    ended: bool = True,
    metrics: dict[str, float] | None = None,
    params: dict[str, str] | None = None,
    tags: dict[str, str] | None = None,
    name: str = "night-owl",
) -> str:
    """A run with metrics, params and tags, ended unless told otherwise."""
    run = store.create_run(experiment_id, "ada", 1_000, [], name)
    run_id = str(run.info.run_id)
    store.log_batch(
        run_id,
        [Metric(key, value, 1_000, 0) for key, value in (metrics or {"loss": 0.5}).items()],
        [Param(key, value) for key, value in (params or {"lr": "0.1"}).items()],
        [RunTag(key, value) for key, value in (tags or {"team": "blue"}).items()],
    )
    if ended:
        store.update_run_info(run_id, RunStatus.FINISHED, 2_000, None)
    return run_id


def items_of(store: DynamoDBTrackingStore, word: str) -> list[Item]:
    """The visible items whose sort key contains a word."""
    return [item for item in everything_in(store.table) if word in str(item["SK"])]
