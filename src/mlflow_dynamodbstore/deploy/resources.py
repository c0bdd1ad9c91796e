"""Pieces that CloudFormation templates are made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

VERSION = "2012-10-17"
"""Of the language of policies."""


def resource(kind: str, **properties: Any) -> dict[str, Any]:
    """A resource of AWS; ``kind`` is its type without ``AWS::``."""
    return {"Type": f"AWS::{kind}", **({"Properties": properties} if properties else {})}


def ref(name: str) -> dict[str, Any]:
    """The value of a parameter, or the main name of a resource."""
    return {"Ref": name}


def arn(name: str) -> dict[str, Any]:
    """The ARN of a resource."""
    return {"Fn::GetAtt": [name, "Arn"]}


def sub(text: str) -> dict[str, Any]:
    """A text with names of parameters and resources in ``${}``."""
    return {"Fn::Sub": text}


def allow(actions: Iterable[str], resources: Iterable[Any]) -> dict[str, Any]:
    """A statement of a policy that allows some actions."""
    return {"Effect": "Allow", "Action": sorted(actions), "Resource": list(resources)}


def role(service: str, statements: list[dict[str, Any]]) -> dict[str, Any]:
    """A role that a service of AWS takes, with one policy."""
    trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    document = {"Version": VERSION, "Statement": statements}
    return resource(
        "IAM::Role",
        AssumeRolePolicyDocument={"Version": VERSION, "Statement": [trust]},
        Policies=[{"PolicyName": "own", "PolicyDocument": document}],
    )
