"""The part of a stack that runs ``ttl cleanup`` on a schedule: EventBridge calls a Lambda function.

The function needs a container image with this package, which a parameter of the stack names. The
stack makes the rest: the function with its role and log group, and the rule that calls it.
"""

from __future__ import annotations

from typing import Any

from mlflow_dynamodbstore.deploy.iam import ROLES

IMAGE, SCHEDULE = "CleanupImage", "CleanupSchedule"
"""The parameters of a stack."""
DAILY = "rate(1 day)"
HANDLER = "mlflow_dynamodbstore.deploy.scheduled_cleanup.handler"
SECONDS = 900
"""The longest that Lambda allows; a cleanup that takes longer is resumed by the next call."""
MEMORY_MB = 1024
LOG_DAYS = 30

ROLE, LOGS, FUNCTION, RULE = "CleanupRole", "CleanupLogs", "CleanupFunction", "CleanupRule"


def parameters(image: str, schedule: str) -> dict[str, Any]:
    """The parameters of the stack, with these defaults."""
    return {
        IMAGE: {
            "Type": "String",
            "Default": image,
            "Description": "URI of a container image that runs ttl cleanup",
        },
        SCHEDULE: {
            "Type": "String",
            "Default": schedule,
            "Description": "When ttl cleanup runs, as EventBridge writes it",
        },
    }


def resources(table: str) -> dict[str, Any]:
    """The resources of the schedule; ``table`` is the name of the table's resource."""
    return {
        ROLE: _role(table),
        LOGS: _resource("Logs::LogGroup", RetentionInDays=LOG_DAYS),
        FUNCTION: _function(table),
        "CleanupRetries": _resource(
            "Lambda::EventInvokeConfig",
            FunctionName={"Ref": FUNCTION},
            Qualifier="$LATEST",
            MaximumRetryAttempts=0,
        ),
        RULE: _resource(
            "Events::Rule",
            Description={"Fn::Sub": f"Runs ttl cleanup on the table ${{{table}}}"},
            ScheduleExpression={"Ref": SCHEDULE},
            State="ENABLED",
            Targets=[{"Id": "cleanup", "Arn": _arn(FUNCTION)}],
        ),
        "CleanupPermission": _resource(
            "Lambda::Permission",
            Action="lambda:InvokeFunction",
            FunctionName={"Ref": FUNCTION},
            Principal="events.amazonaws.com",
            SourceArn=_arn(RULE),
        ),
    }


def _role(table: str) -> dict[str, Any]:
    """A role that may clean up this table, write its log, and nothing else."""
    document = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Action": sorted(f"dynamodb:{action}" for action in ROLES["cleanup"]),
                "Resource": [_arn(table), {"Fn::Sub": f"${{{table}.Arn}}/index/*"}],
            },
            {
                "Effect": "Allow",
                "Action": ["logs:CreateLogStream", "logs:PutLogEvents"],
                "Resource": [_arn(LOGS)],
            },
        ],
    }
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Service": "lambda.amazonaws.com"},
                "Action": "sts:AssumeRole",
            }
        ],
    }
    return _resource(
        "IAM::Role",
        AssumeRolePolicyDocument=trust,
        Policies=[{"PolicyName": "cleanup", "PolicyDocument": document}],
    )


def _function(table: str) -> dict[str, Any]:
    uri = {"Fn::Sub": f"dynamodb://${{AWS::Region}}/${{{table}}}"}
    return _resource(
        "Lambda::Function",
        PackageType="Image",
        Code={"ImageUri": {"Ref": IMAGE}},
        ImageConfig={"Command": [HANDLER]},
        Role=_arn(ROLE),
        Timeout=SECONDS,
        MemorySize=MEMORY_MB,
        LoggingConfig={"LogGroup": {"Ref": LOGS}},
        Environment={"Variables": {"MLFLOW_TRACKING_URI": uri}},
    )


def _resource(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": f"AWS::{kind}", "Properties": properties}


def _arn(resource: str) -> dict[str, Any]:
    return {"Fn::GetAtt": [resource, "Arn"]}
