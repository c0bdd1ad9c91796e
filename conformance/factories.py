"""Stores for MLflow's own test suite: each takes an artifact root and a directory.

The same directory opens the same data again. ``CONFORMANCE_URI`` may name another engine, with
``{name}`` where a table name made from the directory goes, for instance
``dynamodb://localhost:8000/{name}`` or ``dynamodb:///{path}?index_lag=2``.
"""

from __future__ import annotations

import _socket
import os
import socket
from pathlib import Path
from types import SimpleNamespace
from zlib import crc32

import urllib3.util.connection

from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore
from mlflow_dynamodbstore.jobs.store import DynamoDBJobStore
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore

# Some of MLflow's tests replace the system's resolution of names, for checks of addresses. The
# connection to an engine over HTTP must not be lost by that.
if "CONFORMANCE_URI" in os.environ:
    vars(urllib3.util.connection)["socket"] = SimpleNamespace(
        **{**vars(socket), "getaddrinfo": _socket.getaddrinfo}
    )

DEFAULT_URI = "dynamodb:///{path}?synchronous=NORMAL"


def uri_for(directory: Path) -> str:
    """The table of a directory."""
    path = directory / "mlflow.ddb"
    # Folders of two processes may have the same name.
    name = f"{directory.name}-{crc32(str(directory).encode()):08x}"
    return os.environ.get("CONFORMANCE_URI", DEFAULT_URI).format(path=path, name=name)


def make_tracking(artifact_root: str | None, directory: Path) -> DynamoDBTrackingStore:
    """The tracking store of a directory."""
    return DynamoDBTrackingStore(uri_for(directory), artifact_root)


def make_registry(_artifact_root: str | None, directory: Path) -> DynamoDBRegistryStore:
    """The model registry of a directory."""
    return DynamoDBRegistryStore(uri_for(directory))


def make_workspace(_artifact_root: str | None, directory: Path) -> DynamoDBWorkspaceStore:
    """The workspaces of a directory."""
    return DynamoDBWorkspaceStore(uri_for(directory))


def make_jobs(_artifact_root: str | None, directory: Path) -> DynamoDBJobStore:
    """The background jobs of a directory."""
    return DynamoDBJobStore(uri_for(directory))


def make_auth(_artifact_root: str | None, directory: Path) -> DynamoDBAuthStore:
    """The users of a directory."""
    return DynamoDBAuthStore(uri_for(directory))
