"""MLflow's storage layer in one DynamoDB table, or in one file.

Importing this package loads nothing else: MLflow reaches the stores through the entry points in
:mod:`mlflow_dynamodbstore.plugin`, and only when a ``dynamodb:`` URI is used.
"""

__version__ = "0.2.0"
