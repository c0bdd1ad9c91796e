"""The CloudFormation template of a table, made from the definition that the engine uses."""

from __future__ import annotations

from typing import Any

from mlflow_dynamodbstore.deploy import cleanup_schedule
from mlflow_dynamodbstore.table.dynamodb.definition import table_definition
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE, Schema
from mlflow_dynamodbstore.table.values import TTL

RESOURCE = "Table"


def template(
    name: str,
    schema: Schema = MLFLOW_TABLE,
    *,
    cleanup_image: str = "",
    cleanup_schedule_expression: str = cleanup_schedule.DAILY,
) -> dict[str, Any]:
    """A stack with one table, which outlives the stack and is protected against deletion.

    With an image, it also schedules the cleanup, and has the image and schedule as parameters.
    """
    schedule = {
        "Parameters": cleanup_schedule.parameters(cleanup_image, cleanup_schedule_expression)
    }
    scheduled = cleanup_schedule.resources(RESOURCE)
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"The table {name} that MLflow keeps its data in",
        **(schedule if cleanup_image else {}),
        "Resources": {
            **(scheduled if cleanup_image else {}),
            RESOURCE: table_resource(name, schema),
        },
        "Outputs": {
            "TableName": {"Value": {"Ref": RESOURCE}},
            "TableArn": {"Value": {"Fn::GetAtt": [RESOURCE, "Arn"]}},
        },
    }


def table_resource(name: str, schema: Schema = MLFLOW_TABLE) -> dict[str, Any]:
    """The table itself."""
    return {
        "Type": "AWS::DynamoDB::Table",
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Properties": {
            **table_definition(schema, name),
            "TimeToLiveSpecification": {"AttributeName": TTL, "Enabled": True},
            "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
        },
    }
