"""IAM policies with the least permissions that each role needs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

READ = ("BatchGetItem", "DescribeTable", "GetItem", "Query")
WRITE = ("BatchWriteItem", "ConditionCheckItem", "DeleteItem", "PutItem", "UpdateItem")
UPKEEP = ("DescribeContinuousBackups", "DescribeTimeToLive", "Scan")
SETUP = ("CreateTable", "DeleteTable", "UpdateContinuousBackups", "UpdateTable", "UpdateTimeToLive")
STACK = ("CreateStack", "DeleteStack", "DescribeStackEvents", "DescribeStacks", "UpdateStack")
XRAY = "xray:BatchGetTraces"

ROLES: Mapping[str, tuple[str, ...]] = {
    "reader": READ,
    "writer": (*READ, *WRITE),
    "cleanup": (*READ, *WRITE, "Scan"),
    "operator": (*READ, *WRITE, *UPKEEP, *SETUP),
}
"""Reader: those who only read. Writer: MLflow's server and clients. Cleanup: `ttl cleanup` alone.
Operator: this program."""
SCHEDULING: Mapping[str, tuple[str, ...]] = {
    "events": ("DeleteRule", "DescribeRule", "PutRule", "PutTargets", "RemoveTargets"),
    "iam": (
        "CreateRole",
        "DeleteRole",
        "DeleteRolePolicy",
        "GetRole",
        "GetRolePolicy",
        "PassRole",
        "PutRolePolicy",
    ),
    "lambda": (
        "AddPermission",
        "CreateFunction",
        "DeleteFunction",
        "DeleteFunctionEventInvokeConfig",
        "GetFunction",
        "GetFunctionEventInvokeConfig",
        "PutFunctionEventInvokeConfig",
        "RemovePermission",
        "UpdateFunctionCode",
        "UpdateFunctionConfiguration",
    ),
    "logs": ("CreateLogGroup", "DeleteLogGroup", "DescribeLogGroups", "PutRetentionPolicy"),
}
"""What CloudFormation does, with the operator's permissions, to schedule a cleanup."""
IMAGES = ("BatchGetImage", "GetDownloadUrlForLayer", "GetRepositoryPolicy", "SetRepositoryPolicy")


def policy(
    role: str,
    name: str,
    region: str,
    stack: str,
    account: str = "*",
    *,
    xray: bool = False,
    schedule: bool = False,
) -> dict[str, Any]:
    """The policy document of a role for one table.

    ``xray`` allows fetching spans from X-Ray. They are written to the table, so a reader cannot
    fetch any. ``schedule`` allows an operator to deploy a stack that schedules the cleanup.
    """
    aws = _partition(region)
    table = f"arn:{aws}:dynamodb:{region}:{account}:table/{name}"
    statements = [
        {
            "Sid": "Table",
            "Effect": "Allow",
            "Action": sorted(f"dynamodb:{action}" for action in ROLES[role]),
            "Resource": [table, f"{table}/index/*"],
        }
    ]
    if role == "operator":
        statements.append(
            {
                "Sid": "Stack",
                "Effect": "Allow",
                "Action": sorted(f"cloudformation:{action}" for action in STACK),
                "Resource": [f"arn:{aws}:cloudformation:{region}:{account}:stack/{stack}/*"],
            }
        )
    if schedule and role == "operator":
        statements += _scheduling(aws, region, account, stack)
    if xray and role not in ("reader", "cleanup"):
        # X-Ray has no resources that could limit this action.
        statements.append({"Sid": "Spans", "Effect": "Allow", "Action": [XRAY], "Resource": ["*"]})
    return {"Version": "2012-10-17", "Statement": statements}


def _scheduling(aws: str, region: str, account: str, stack: str) -> list[dict[str, Any]]:
    """What it takes to make the resources of a schedule, whose names begin with the stack's."""
    here = f"{region}:{account}"
    named = {
        "events": [f"arn:{aws}:events:{here}:rule/{stack}-*"],
        "iam": [f"arn:{aws}:iam::{account}:role/{stack}-*"],
        "lambda": [f"arn:{aws}:lambda:{here}:function:{stack}-*"],
        "logs": [f"arn:{aws}:logs:{here}:log-group:{stack}-*"],
    }
    statements = [
        {
            "Sid": f"Schedule{service.title()}",
            "Effect": "Allow",
            "Action": sorted(f"{service}:{action}" for action in actions),
            "Resource": named[service],
        }
        for service, actions in SCHEDULING.items()
    ]
    images = {
        "Sid": "ScheduleImage",
        "Effect": "Allow",
        "Action": sorted(f"ecr:{action}" for action in IMAGES),
        "Resource": [f"arn:{aws}:ecr:*:*:repository/*"],
    }
    return [*statements, images]


def _partition(region: str) -> str:
    """The partition of AWS that a region belongs to, which begins its resource names."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"
