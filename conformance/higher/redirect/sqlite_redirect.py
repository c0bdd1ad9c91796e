"""Open our stores wherever MLflow is told to open a SQLite database.

MLflow finds these factories by the entry points beside this file, which take the scheme ``sqlite``
from its own stores. So its tests run unchanged, their servers and subprocesses too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlflow_dynamodbstore import plugin

if TYPE_CHECKING:
    from mlflow.store.model_registry.abstract_store import AbstractStore as AbstractRegistryStore
    from mlflow.store.tracking.abstract_store import AbstractStore
    from mlflow.store.workspace.abstract_store import AbstractStore as AbstractWorkspaceStore


def table_of(sqlite_uri: str) -> str:
    """The URI of the table that stands for a SQLite database, in a file beside it."""
    path, _, _ = sqlite_uri.removeprefix("sqlite:").partition("?")
    return f"dynamodb:{path}.ddb?synchronous=NORMAL"


def tracking_store(store_uri: str, artifact_uri: str | None = None) -> AbstractStore:
    """Our tracking store, for a SQLite URI."""
    return plugin.tracking_store(table_of(store_uri), artifact_uri)


def model_registry_store(store_uri: str, **_: object) -> AbstractRegistryStore:
    """Our model registry, for a SQLite URI."""
    return plugin.model_registry_store(table_of(store_uri))


def workspace_store(workspace_uri: str) -> AbstractWorkspaceStore:
    """Our workspaces, for a SQLite URI."""
    return plugin.workspace_store(table_of(workspace_uri))
