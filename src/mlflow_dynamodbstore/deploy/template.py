"""The CloudFormation template of a table, made from the definition that the engine uses."""

from __future__ import annotations

from typing import Any

from mlflow_dynamodbstore.table.dynamodb.definition import table_definition
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE, Schema
from mlflow_dynamodbstore.table.values import TTL

RESOURCE = "Table"


def template(name: str, schema: Schema = MLFLOW_TABLE) -> dict[str, Any]:
    """A stack with one table, which outlives the stack and is protected against deletion."""
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"The table {name} that MLflow keeps its data in",
        "Resources": {
            RESOURCE: {
                "Type": "AWS::DynamoDB::Table",
                "DeletionPolicy": "Retain",
                "UpdateReplacePolicy": "Retain",
                "Properties": {
                    **table_definition(schema, name),
                    "TimeToLiveSpecification": {"AttributeName": TTL, "Enabled": True},
                    "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
                },
            }
        },
        "Outputs": {
            "TableName": {"Value": {"Ref": RESOURCE}},
            "TableArn": {"Value": {"Fn::GetAtt": [RESOURCE, "Arn"]}},
        },
    }
