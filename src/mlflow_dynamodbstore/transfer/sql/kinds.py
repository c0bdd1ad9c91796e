"""The kinds of entities, in the order they are moved."""

from __future__ import annotations

from dataclasses import replace

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.transfer.sql.database import Database
from mlflow_dynamodbstore.transfer.sql.datasets import DatasetItems, DatasetRows
from mlflow_dynamodbstore.transfer.sql.experiments import (
    ExperimentItems,
    ExperimentRows,
    WorkspaceItems,
    WorkspaceRows,
)
from mlflow_dynamodbstore.transfer.sql.items import ItemSide, Shelf
from mlflow_dynamodbstore.transfer.sql.logged_models import LoggedModelItems, LoggedModelRows
from mlflow_dynamodbstore.transfer.sql.moving import EXPERIMENTS, Kind
from mlflow_dynamodbstore.transfer.sql.registry import ModelItems, ModelRows
from mlflow_dynamodbstore.transfer.sql.rows import RowSide
from mlflow_dynamodbstore.transfer.sql.run_items import RunItems
from mlflow_dynamodbstore.transfer.sql.run_rows import RunRows
from mlflow_dynamodbstore.transfer.sql.trace_items import TraceItems
from mlflow_dynamodbstore.transfer.sql.trace_rows import TraceRows

SIDES: tuple[tuple[str, type[RowSide], type[ItemSide]], ...] = (
    ("workspaces", WorkspaceRows, WorkspaceItems),
    (EXPERIMENTS, ExperimentRows, ExperimentItems),
    ("datasets", DatasetRows, DatasetItems),
    ("runs", RunRows, RunItems),
    ("logged models", LoggedModelRows, LoggedModelItems),
    ("traces", TraceRows, TraceItems),
    ("registered models", ModelRows, ModelItems),
)
"""What lies in another comes after it."""


def importing(database: Database, table: Table) -> list[Kind]:
    """The kinds with the database as the place that is read."""
    shelf = Shelf(table)
    return [Kind(name, rows(database), items(shelf)) for name, rows, items in SIDES]


def exporting(table: Table, database: Database) -> list[Kind]:
    """The kinds with the table as the place that is read."""
    return [replace(k, source=k.target, target=k.source) for k in importing(database, table)]


def carried() -> set[str]:
    """The tables of a database that are moved."""
    return {table for _, rows, _ in SIDES for table in rows.tables()}
