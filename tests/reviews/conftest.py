"""A tracking store with one experiment, on a file whose global indexes lag."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.lagging import other, store, time

__all__ = ["other", "store", "time"]


@pytest.fixture
def experiment(store: DynamoDBTrackingStore) -> str:
    return store.create_experiment("reviewed")
