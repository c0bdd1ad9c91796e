"""The whole stack: checked by cfn-lint, deployed to moto as far as that goes, and as Terraform."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import hcl2
import pytest
from click.testing import CliRunner, Result

from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.cli.exits import USAGE
from mlflow_dynamodbstore.deploy.iam import ROLES
from mlflow_dynamodbstore.deploy.server_stack import SCHEDULES, server_template
from mlflow_dynamodbstore.deploy.template import template
from mlflow_dynamodbstore.table.dynamodb.definition import table_definition
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from tests.engines import ROOT, moto_server

REGION = "us-east-1"
MODULE = ROOT / "packaging" / "terraform"
UNKNOWN_TO_MOTO = {
    "AWS::CloudWatch::Alarm",
    "AWS::Logs::MetricFilter",
    "AWS::S3::BucketPolicy",
    "AWS::SNS::Subscription",
    "AWS::Budgets::Budget",
}
"""What its CloudFormation leaves out; a budget was not asked for, either."""


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with moto_server() as address:
        yield address


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)


def client(service: str, host: str) -> Any:
    return boto3.client(service, region_name=REGION, endpoint_url=f"http://{host}")


def run(host: str, name: str, *arguments: str, code: int = 0) -> Result:
    where = ["--name", name, "--endpoint-url", f"http://{host}"]
    done = CliRunner().invoke(main, ["deploy", *where, *arguments])
    assert done.exit_code == code, done.output
    return done


# --- CloudFormation -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [template("mlflow"), template("mlflow", cleanup_image="cleanup:1"), server_template("mlflow")],
    ids=["table", "cleanup", "server"],
)
def test_cfn_lint_finds_nothing(body: dict[str, Any], tmp_path: Path):
    (tmp_path / "template.json").write_text(json.dumps(body))
    program = Path(sys.executable).with_name("cfn-lint")
    command = [str(program), str(tmp_path / "template.json")]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stdout) == (0, "")


def network(host: str) -> dict[str, str]:
    """The parameters that a stack needs, with a network on moto."""
    ec2 = client("ec2", host)
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(
            VpcId=vpc, CidrBlock=f"10.0.{n}.0/24", AvailabilityZone=f"us-east-1{'ab'[n % 2]}"
        )["Subnet"]["SubnetId"]
        for n in range(4)
    ]
    certificate = client("acm", host).request_certificate(DomainName="mlflow.example.com")
    return {
        "Image": "mlflow:1",
        "Vpc": vpc,
        "Subnets": ",".join(subnets[:2]),
        "PublicSubnets": ",".join(subnets[2:]),
        "CertificateArn": certificate["CertificateArn"],
        "AllowedHosts": "mlflow.example.com",
        "AlarmEmail": "ops@example.com",
    }


def test_the_whole_stack_is_deployed(host: str):
    given = [f"--parameter={name}={value}" for name, value in network(host).items()]
    shown = run(host, "whole", "--stack", "server", *given).output
    assert "Stack whole is up to date." in shown
    table = client("dynamodb", host).describe_table(TableName="whole")["Table"]
    assert table["DeletionProtectionEnabled"] is True
    made = {
        one.get("LogicalResourceId")
        for one in client("cloudformation", host).describe_stack_resources(StackName="whole")[
            "StackResources"
        ]
    }
    expected = server_template("whole")["Resources"]
    left_out = {expected[name]["Type"] for name in expected.keys() - made}
    assert left_out == UNKNOWN_TO_MOTO
    ecs = client("ecs", host)
    (cluster,) = ecs.list_clusters()["clusterArns"]
    (service,) = ecs.describe_services(
        cluster=cluster, services=ecs.list_services(cluster=cluster)["serviceArns"]
    )["services"]
    assert service["desiredCount"] == 2
    tasks = [
        ecs.describe_task_definition(taskDefinition=arn)["taskDefinition"]["containerDefinitions"][
            0
        ]
        for arn in ecs.list_task_definitions()["taskDefinitionArns"]
    ]
    commands = {task["name"]: " ".join(task["command"]) for task in tasks}
    assert "--table dynamodb://us-east-1/whole" in commands["server"]
    assert (
        commands["cleanup"] == "mlflow-dynamodbstore ttl cleanup --uri dynamodb://us-east-1/whole"
    )
    assert re.match(r"mlflow-dynamodbstore dump s3://\S+/backups/\$\(date", commands["backup"])
    rules = client("events", host).list_rules()["Rules"]
    assert {rule["ScheduleExpression"] for rule in rules} >= set(SCHEDULES.values())


def of_kind(kind: str) -> dict[str, Any]:
    """The properties of the stack's resources of a kind, with texts in place of references."""
    found = server_template("x")["Resources"].items()
    return {
        name: texts(one.get("Properties", {}))
        for name, one in found
        if one["Type"] == f"AWS::{kind}"
    }


def texts(value: Any) -> Any:
    if isinstance(value, list):
        return [texts(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "Ref" in value:
        return str(value["Ref"])
    if "Fn::GetAtt" in value:
        return ".".join(value["Fn::GetAtt"])
    return {name: texts(one) for name, one in value.items()}


def test_alarms_filters_and_policies_are_accepted_by_their_services(host: str):
    """What moto's CloudFormation leaves out is sent to the services themselves."""
    cloudwatch, logs = client("cloudwatch", host), client("logs", host)
    for name, alarm in of_kind("CloudWatch::Alarm").items():
        cloudwatch.put_metric_alarm(AlarmName=name, **alarm)
    described = cloudwatch.describe_alarms()["MetricAlarms"]
    assert len(described) == 8
    for name, found in of_kind("Logs::MetricFilter").items():
        logs.create_log_group(logGroupName=name)
        (counted,) = found["MetricTransformations"]
        logs.put_metric_filter(
            logGroupName=name,
            filterName=name,
            filterPattern=found["FilterPattern"],
            metricTransformations=[{n[0].lower() + n[1:]: v for n, v in counted.items()}],
        )
    s3 = client("s3", host)
    s3.create_bucket(Bucket="policies")
    (policy,) = of_kind("S3::BucketPolicy").values()
    s3.put_bucket_policy(Bucket="policies", Policy=json.dumps(policy["PolicyDocument"]))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--stack", "server"], "needs --parameter for Image, Vpc"),
        (["--stack", "server", "--parameter", "Image"], "NAME=VALUE"),
        (["--stack", "server", "--parameter", "Imago=x"], "no parameter Imago"),
        (["--parameter", "Image=x"], "belongs to --stack server"),
        (["--stack", "server", "--cleanup-image", "x"], "cleans up by itself"),
    ],
)
def test_wrong_parameters_get_a_sentence(host: str, arguments: list[str], said: str):
    assert said in " ".join(run(host, "wrong", *arguments, code=USAGE).output.split())


def test_the_server_may_no_more_than_a_writer():
    resources = server_template("mlflow")["Resources"]
    (policy,) = resources["ServerRole"]["Properties"]["Policies"]
    allowed = {a for one in policy["PolicyDocument"]["Statement"] for a in one["Action"]}
    assert {a for a in allowed if a.startswith("dynamodb:")} == {
        f"dynamodb:{action}" for action in ROLES["writer"]
    }


# --- Terraform ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def module() -> dict[str, Any]:
    """The module's blocks, all files together."""
    found: dict[str, Any] = {}
    for path in sorted(MODULE.glob("*.tf")):
        with path.open() as file:
            for kind, blocks in hcl2.load(file).items():
                found.setdefault(kind, []).extend(blocks)
    return found


def plain(value: Any) -> Any:
    """A value of python-hcl2 without the quotes that some of its releases keep."""
    if isinstance(value, str):
        return value.removeprefix('"').removesuffix('"')
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {plain(name): plain(one) for name, one in value.items() if name != "__is_block__"}
    return value


def resources(module: dict[str, Any]) -> dict[tuple[str, str], Any]:
    return {
        (kind, name): body
        for block in plain(module["resource"])
        for kind, named in block.items()
        for name, body in named.items()
    }


def test_every_reference_of_the_module_is_declared(module: dict[str, Any]):
    text = "\n".join(path.read_text() for path in MODULE.glob("*.tf"))
    declared = resources(module)
    variables = {name for block in plain(module["variable"]) for name in block}
    data = {
        (kind, name)
        for block in plain(module["data"])
        for kind, named in block.items()
        for name in named
    }
    names = {name for block in plain(module.get("locals", [])) for name in block}
    assert set(re.findall(r"\bvar\.(\w+)", text)) == variables
    assert set(re.findall(r"\blocal\.(\w+)", text)) <= names
    assert set(re.findall(r"\bdata\.(aws_\w+)\.(\w+)", text)) == data
    used = set(re.findall(r"(?<!data\.)\b(aws_\w+)\.(\w+)", text))
    assert used <= declared.keys()


def test_the_module_makes_the_same_table(module: dict[str, Any]):
    made = resources(module)["aws_dynamodb_table", "mlflow"]
    defined = table_definition(MLFLOW_TABLE, "x")
    assert (made["hash_key"], made["range_key"]) == ("PK", "SK")
    assert {(a["name"], a["type"]) for a in made["attribute"]} == {
        (a["AttributeName"], a["AttributeType"]) for a in defined["AttributeDefinitions"]
    }
    local = {
        (i["name"], i["range_key"], i["projection_type"]) for i in made["local_secondary_index"]
    }
    assert local == {
        (i["IndexName"], i["KeySchema"][1]["AttributeName"], i["Projection"]["ProjectionType"])
        for i in defined["LocalSecondaryIndexes"]
    }
    assert {
        (i["name"], i["hash_key"], i["range_key"], i["projection_type"])
        for i in made["global_secondary_index"]
    } == {
        (
            i["IndexName"],
            i["KeySchema"][0]["AttributeName"],
            i["KeySchema"][1]["AttributeName"],
            i["Projection"]["ProjectionType"],
        )
        for i in defined["GlobalSecondaryIndexes"]
    }
    assert made["billing_mode"] == "PAY_PER_REQUEST"
    assert made["deletion_protection_enabled"] is True


def test_the_module_has_the_alarms_schedules_and_permissions_of_the_stack(module: dict[str, Any]):
    body = server_template("x")["Resources"]
    made = resources(module)
    alarms = {name for name, one in body.items() if one["Type"] == "AWS::CloudWatch::Alarm"}
    ours = {name for kind, name in made if kind == "aws_cloudwatch_metric_alarm"}
    assert ours == {re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower() for name in alarms}
    text = "\n".join(path.read_text() for path in MODULE.glob("*.tf"))
    for when in SCHEDULES.values():
        assert f'"{when}"' in text
    for action in ROLES["writer"]:
        assert f'"dynamodb:{action}"' in text
