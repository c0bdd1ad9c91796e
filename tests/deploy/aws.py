"""Clients and stacks on the address of moto."""

from __future__ import annotations

from typing import Any

import boto3
from click.testing import CliRunner, Result

from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.deploy.stacks import Stack

REGION = "us-east-1"


def client(service: str, host: str) -> Any:
    return boto3.client(service, region_name=REGION, endpoint_url=f"http://{host}")


def stack(host: str, name: str) -> Stack:
    return Stack(name, name, REGION, f"http://{host}", sleep=lambda _: None)


def deploy(host: str, name: str, *arguments: str, code: int = 0) -> Result:
    """Run ``deploy``, which must end with a code."""
    where = ["--name", name, "--region", REGION, "--endpoint-url", f"http://{host}"]
    done = CliRunner().invoke(main, ["deploy", *where, *arguments])
    assert done.exit_code == code, (done.output, done.exception)
    return done
