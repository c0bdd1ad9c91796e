"""The engine for DynamoDB, and for anything that speaks its wire protocol."""

from mlflow_dynamodbstore.table.dynamodb.definition import table_definition
from mlflow_dynamodbstore.table.dynamodb.engine import DynamoDBEngine

__all__ = ["DynamoDBEngine", "table_definition"]
