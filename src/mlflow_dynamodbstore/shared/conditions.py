"""The conditions that writes are made on, each with a name."""

from __future__ import annotations

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE

ABSENT = Attr(MLFLOW_TABLE.pk).not_exists()
"""There is no item at this key."""
PRESENT = Attr(MLFLOW_TABLE.pk).exists()
"""There is an item at this key."""
