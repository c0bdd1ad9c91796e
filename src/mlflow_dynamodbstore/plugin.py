"""What MLflow loads: a small factory for each kind of store.

MLflow loads the entry points of all stores at every start, whatever URI is in use. A factory
therefore imports its store only when it is called. What MLflow has no entry point for is replaced
in its modules when they are imported.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mlflow_dynamodbstore.mlflow_compat.hooks import await_modules

if TYPE_CHECKING:
    from mlflow.genai.scorers.registry import MlflowTrackingStore

    from mlflow_dynamodbstore.jobs.store import DynamoDBJobStore
    from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
    from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
    from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore
    from versioned.mlflow_artifacts import VersionedArtifactRepository


def tracking_store(store_uri: str, artifact_uri: str | None = None) -> DynamoDBTrackingStore:
    """The tracking store at a URI; new experiments keep their artifacts under ``artifact_uri``.

    In the process of a server's job that is where the server keeps them.
    """
    from mlflow_dynamodbstore.mlflow_compat.gateway_routes import serve_gateway_calls
    from mlflow_dynamodbstore.mlflow_compat.server_settings import server_artifact_root
    from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore

    serve_gateway_calls(DynamoDBTrackingStore)
    return DynamoDBTrackingStore(store_uri, artifact_uri or server_artifact_root())


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


def job_store(store_uri: str) -> DynamoDBJobStore:
    """The job store at a URI, of the server that this process belongs to if it is one's."""
    from mlflow_dynamodbstore.jobs.job_runs import Runner
    from mlflow_dynamodbstore.jobs.processes import name_of_process
    from mlflow_dynamodbstore.jobs.store import DynamoDBJobStore
    from mlflow_dynamodbstore.mlflow_compat.jobs import lease_seconds
    from mlflow_dynamodbstore.mlflow_compat.server_settings import queue_name

    queue = queue_name()
    if queue is None:
        return DynamoDBJobStore(store_uri)
    runner = Runner(name_of_process(os.getpid()), lease_seconds())
    return DynamoDBJobStore(store_uri, queue=queue, runner=runner)


def rotate_key(uri: str, new_passphrase: str) -> tuple[int, int]:
    """Change the passphrase of the gateway's secrets; how many, and the version of the key."""
    from mlflow_dynamodbstore.gateway.rotation import rotate_key
    from mlflow_dynamodbstore.shared.open_tables import open_table

    return rotate_key(open_table(uri), new_passphrase)


await_modules(job_store, rotate_key)
