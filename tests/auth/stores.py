"""Auth stores for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mlflow.utils.workspace_context import WorkspaceContext

from mlflow_dynamodbstore.auth.store import DynamoDBAuthStore
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine

PASSWORD = "a long password"  # nobody uses it


def open_auth_store(folder: Path, options: str = "synchronous=NORMAL") -> DynamoDBAuthStore:
    """The store of a folder, on a table of its own, as another process would have."""
    uri = f"dynamodb:///{folder / 'mlflow.ddb'}?{options}"
    return DynamoDBAuthStore(uri, table=Table(open_engine(uri)))


@contextmanager
def in_workspace(name: str) -> Iterator[None]:
    with WorkspaceContext(name):
        yield
