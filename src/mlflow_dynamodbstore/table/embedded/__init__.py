"""A table in one SQLite file: no server, no account."""

from mlflow_dynamodbstore.table.embedded.engine import EmbeddedEngine

__all__ = ["EmbeddedEngine"]
