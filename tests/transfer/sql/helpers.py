"""Importing, exporting and verifying in tests."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.transfer.sql import kinds
from mlflow_dynamodbstore.transfer.sql.database import Database
from mlflow_dynamodbstore.transfer.sql.move import Kind, Move, Verification
from tests.transfer.sql.mlflow_database import ARTIFACTS


def moved(some: Sequence[Kind]) -> Move:
    move = Move()
    for kind in some:
        move.move(kind)
    return move


def verified(some: Sequence[Kind]) -> Verification:
    verification = Verification()
    for kind in some:
        verification.verify(kind)
    return verification


def imported(uri: str, table: Table) -> Move:
    return moved(kinds.importing(Database.to_read(uri), table))


def exported(table: Table, uri: str) -> Move:
    return moved(kinds.exporting(table, Database.to_write(uri)))


def stores(table: Table) -> tuple[DynamoDBTrackingStore, DynamoDBRegistryStore]:
    """Our stores on a table."""
    tracking = DynamoDBTrackingStore("", ARTIFACTS, table=table)
    return tracking, DynamoDBRegistryStore("", table=table)
