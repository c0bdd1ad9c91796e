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
    "operator": (*READ, *WRITE, *UPKEEP, *SETUP),
}
"""Reader: those who only read. Writer: MLflow's server and clients. Operator: this program."""


def policy(
    role: str, name: str, region: str, stack: str, account: str = "*", *, xray: bool = False
) -> dict[str, Any]:
    """The policy document of a role for one table; ``xray`` allows fetching spans from X-Ray.

    Fetched spans are written to the table, so a reader cannot fetch any.
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
    if xray and role != "reader":
        # X-Ray has no resources that could limit this action.
        statements.append({"Sid": "Spans", "Effect": "Allow", "Action": [XRAY], "Resource": ["*"]})
    return {"Version": "2012-10-17", "Statement": statements}


def _partition(region: str) -> str:
    """The partition of AWS that a region belongs to, which begins its resource names."""
    if region.startswith("cn-"):
        return "aws-cn"
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"
