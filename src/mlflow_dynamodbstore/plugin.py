"""What MLflow loads: one small factory for each kind of store.

MLflow loads every entry point of a group when it builds that group's registry, whatever URI is in
use. A factory therefore imports its store only when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
    from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore


def tracking_store(store_uri: str, artifact_uri: str | None = None) -> DynamoDBTrackingStore:
    """The tracking store at a URI; new experiments keep their artifacts under ``artifact_uri``."""
    from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore  # noqa: PLC0415 - lazy

    return DynamoDBTrackingStore(store_uri, artifact_uri)


def model_registry_store(store_uri: str) -> DynamoDBRegistryStore:
    """The model registry store at a URI."""
    from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore  # noqa: PLC0415 - lazy

    return DynamoDBRegistryStore(store_uri)
