"""The operator's command line, ``mlflow-dynamodbstore``: a module for each group of commands."""

from __future__ import annotations

from mlflow_dynamodbstore.cli.main import main

__all__ = ["main"]
