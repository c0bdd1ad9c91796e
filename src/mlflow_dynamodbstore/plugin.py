"""What MLflow loads: a small factory for each kind of store.

MLflow loads the entry points of all stores at every start, whatever URI is in use. A factory
therefore imports its store only when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow.genai.scorers.registry import MlflowTrackingStore

    from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
    from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
    from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore
    from versioned.mlflow_artifacts import VersionedArtifactRepository


def tracking_store(store_uri: str, artifact_uri: str | None = None) -> DynamoDBTrackingStore:
    """The tracking store at a URI; new experiments keep their artifacts under ``artifact_uri``."""
    from mlflow_dynamodbstore.mlflow_compat.gateway_routes import serve_gateway_calls
    from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore

    serve_gateway_calls(DynamoDBTrackingStore)
    return DynamoDBTrackingStore(store_uri, artifact_uri)


def model_registry_store(store_uri: str) -> DynamoDBRegistryStore:
    """The model registry store at a URI."""
    from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore

    return DynamoDBRegistryStore(store_uri)


def workspace_store(workspace_uri: str) -> DynamoDBWorkspaceStore:
    """The store of workspaces at a URI."""
    from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore

    return DynamoDBWorkspaceStore(workspace_uri)


def scorer_store(tracking_uri: str | None = None) -> MlflowTrackingStore:
    """MLflow's own view of the scorers of a tracking store."""
    from mlflow.genai.scorers.registry import MlflowTrackingStore

    return MlflowTrackingStore(tracking_uri)


def versioned_artifacts(
    artifact_uri: str, tracking_uri: str | None = None, registry_uri: str | None = None
) -> VersionedArtifactRepository:
    """The files of the version that a ``versioned:/`` URI names."""
    from versioned.mlflow_artifacts import VersionedArtifactRepository

    return VersionedArtifactRepository(artifact_uri, tracking_uri, registry_uri)
