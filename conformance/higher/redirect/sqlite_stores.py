"""Our stores, as MLflow's tests open its SQL stores: by SQLite URIs, with an engine to dispose of.

They are classes, so a test may ask whether a store is one of them.
"""

from __future__ import annotations

import os
from typing import Any

from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore
from mlflow_dynamodbstore.jobs.job_runs import Runner
from mlflow_dynamodbstore.jobs.processes import name_of_process
from mlflow_dynamodbstore.jobs.store import DynamoDBJobStore
from mlflow_dynamodbstore.mlflow_compat.gateway_routes import serve_gateway_calls
from mlflow_dynamodbstore.mlflow_compat.jobs import lease_seconds
from mlflow_dynamodbstore.mlflow_compat.server_settings import queue_name, server_artifact_root
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore


def table_of(sqlite_uri: str) -> str:
    """The URI of the table that stands for a SQLite database, in a file beside it."""
    path, _, _ = sqlite_uri.removeprefix("sqlite:").partition("?")
    return f"dynamodb:{path}.ddb?synchronous=NORMAL"


class _Engine:
    """What tests dispose of at their end; our tables stay open for the process."""

    def dispose(self) -> None:
        """Do nothing."""


class TrackingStore(DynamoDBTrackingStore):
    """Our tracking store, for a SQLite URI."""

    engine = _Engine()

    def __init__(self, db_uri: str, default_artifact_root: str | None = None, **_: object) -> None:
        super().__init__(table_of(db_uri), default_artifact_root)
        self.db_uri = db_uri

    def _get_workspace_provider_instance(self) -> WorkspaceStore:
        """The workspaces in the same database; a test asks its tracking store for them."""
        return WorkspaceStore(self.db_uri)


def opened_tracking_store(db_uri: str, artifact_uri: str | None) -> TrackingStore:
    """The tracking store of this process; as ``plugin.tracking_store``."""
    serve_gateway_calls(TrackingStore)
    return TrackingStore(db_uri, artifact_uri or server_artifact_root())


class RegistryStore(DynamoDBRegistryStore):
    """Our model registry, for a SQLite URI."""

    engine = _Engine()

    def __init__(self, db_uri: str, **_: object) -> None:
        super().__init__(table_of(db_uri))


class WorkspaceStore(DynamoDBWorkspaceStore):
    """Our workspaces, for a SQLite URI."""

    engine = _Engine()

    def __init__(self, workspace_uri: str) -> None:
        super().__init__(table_of(workspace_uri))


class JobStore(DynamoDBJobStore):
    """Our job store, for a SQLite URI."""

    engine = _Engine()

    def __init__(self, db_uri: str, **of_a_server: Any) -> None:
        super().__init__(table_of(db_uri), **of_a_server)


def server_job_store(db_uri: str) -> JobStore:
    """The job store of this process, of a server if it is one's; as ``plugin.job_store``."""
    queue = queue_name()
    if queue is None:
        return JobStore(db_uri)
    return JobStore(
        db_uri, queue=queue, runner=Runner(name_of_process(os.getpid()), lease_seconds())
    )


class AuthStore(DynamoDBAuthStore):
    """Our users. MLflow's store is made first and told its database later."""

    engine = _Engine()

    def __init__(self) -> None:
        """Wait for ``init_db``."""

    def init_db(self, db_uri: str, *_: object) -> None:
        """Open the table."""
        super().__init__(table_of(db_uri))
