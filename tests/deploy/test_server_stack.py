"""The whole stack: checked by cfn-lint, and deployed to moto as far as that goes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mlflow_dynamodbstore.cli.exits import USAGE
from mlflow_dynamodbstore.deploy.iam import ROLES
from mlflow_dynamodbstore.deploy.server_stack import SCHEDULES, server_template
from mlflow_dynamodbstore.deploy.template import template
from tests.deploy.aws import client, deploy, stack

UNKNOWN_TO_MOTO = {
    "AWS::CloudWatch::Alarm",
    "AWS::Logs::MetricFilter",
    "AWS::S3::BucketPolicy",
    "AWS::SNS::Subscription",
    "AWS::SNS::TopicPolicy",
    "AWS::Budgets::Budget",
}
"""What its CloudFormation leaves out; a budget was not asked for, either."""


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


@pytest.fixture(scope="module")
def deployed(host: str) -> str:
    """What deploying the whole stack has printed."""
    given = [f"--parameter={name}={value}" for name, value in network(host).items()]
    return deploy(host, "whole", "--stack", "server", *given).output


def service(host: str) -> Any:
    ecs = client("ecs", host)
    (cluster,) = ecs.list_clusters()["clusterArns"]
    names = ecs.list_services(cluster=cluster)["serviceArns"]
    (found,) = ecs.describe_services(cluster=cluster, services=names)["services"]
    return found


def containers(host: str) -> list[Any]:
    ecs = client("ecs", host)
    return [
        ecs.describe_task_definition(taskDefinition=arn)["taskDefinition"]["containerDefinitions"][
            0
        ]
        for arn in ecs.list_task_definitions()["taskDefinitionArns"]
    ]


def test_the_whole_stack_is_deployed(host: str, deployed: str):
    assert "Stack whole is up to date." in deployed
    table = client("dynamodb", host).describe_table(TableName="whole")["Table"]
    assert table["DeletionProtectionEnabled"] is True
    described = client("cloudformation", host).describe_stack_resources(StackName="whole")
    made = {one.get("LogicalResourceId") for one in described["StackResources"]}
    expected = server_template("whole")["Resources"]
    left_out = {expected[name]["Type"] for name in expected.keys() - made}
    assert left_out == UNKNOWN_TO_MOTO
    assert service(host)["desiredCount"] == 2
    commands = {task["name"]: " ".join(task["command"]) for task in containers(host)}
    assert "--table dynamodb://us-east-1/whole" in commands["server"]
    assert (
        commands["cleanup"] == "mlflow-dynamodbstore ttl cleanup --uri dynamodb://us-east-1/whole"
    )
    assert re.match(r"mlflow-dynamodbstore dump s3://\S+/backups/\$\(date", commands["backup"])
    rules = client("events", host).list_rules()["Rules"]
    assert {rule.get("ScheduleExpression") for rule in rules} >= set(SCHEDULES.values())


@pytest.mark.usefixtures("deployed")
def test_an_update_changes_what_is_given_and_keeps_the_rest(host: str):
    before = stack(host, "whole").parameters()
    assert before is not None
    table = client("dynamodb", host).describe_table(TableName="whole")["Table"]["TableArn"]
    changes = {"Tasks": "3", "BackupSchedule": "rate(12 hours)", "Image": "mlflow:2"}
    given = [f"--parameter={name}={value}" for name, value in changes.items()]
    said = deploy(host, "whole", "--stack", "server", *given).output
    assert "UPDATE_COMPLETE" in said
    assert stack(host, "whole").parameters() == {**before, **changes}
    assert service(host)["desiredCount"] == 3
    rules = client("events", host).list_rules()["Rules"]
    scheduled = {rule["ScheduleExpression"] for rule in rules if "ScheduleExpression" in rule}
    # Other tests of this process may have schedules too.
    assert scheduled >= {*SCHEDULES.values(), "rate(12 hours)"} - {SCHEDULES["BackupSchedule"]}
    assert SCHEDULES["BackupSchedule"] not in scheduled
    described = client("dynamodb", host).describe_table(TableName="whole")["Table"]
    assert described["TableArn"] == table
    assert "is up to date" in deploy(host, "whole", "--stack", "server").output


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
    if "Fn::Sub" in value:
        return re.sub(r"[${}:]+", "", value["Fn::Sub"])
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
    sns, events = client("sns", host), client("events", host)
    topic = sns.create_topic(Name="alarms")["TopicArn"]
    (sending,) = of_kind("SNS::TopicPolicy").values()
    document = json.dumps(sending["PolicyDocument"])
    sns.set_topic_attributes(TopicArn=topic, AttributeName="Policy", AttributeValue=document)
    failed = of_kind("Events::Rule")["UpkeepFailed"]
    events.put_rule(Name="failed", EventPattern=json.dumps(failed["EventPattern"]))


def test_whatever_reports_to_the_topic_may_send_to_it():
    """Without a policy that names it, AWS drops the messages of a budget and of a rule."""
    (policy,) = of_kind("SNS::TopicPolicy").values()
    (statement,) = policy["PolicyDocument"]["Statement"]
    services = {
        "CloudWatch::Alarm": "cloudwatch",
        "Budgets::Budget": "budgets",
        "Events::Rule": "events",
    }
    sending = {
        services[kind]
        for kind in services
        for one in of_kind(kind).values()
        if '"Alarms"' in json.dumps(one)
    }
    assert sending == set(services.values())
    assert statement["Principal"]["Service"] == sorted(f"{one}.amazonaws.com" for one in sending)


def test_upkeep_that_fails_is_reported_and_the_servers_own_tasks_are_not():
    failed = of_kind("Events::Rule")["UpkeepFailed"]["EventPattern"]["detail"]
    assert failed["group"] == [{"prefix": "family:"}]  # a service's tasks have "service:…"
    exits, starts = failed["$or"]
    assert exits == {"containers": {"exitCode": [{"anything-but": [0]}]}}
    assert starts == {"stopCode": ["TaskFailedToStart"]}


def test_servers_with_background_jobs_have_the_memory_for_them():
    body = server_template("x")
    task = body["Resources"]["ServerTask"]["Properties"]
    assert task["Memory"] == {"Fn::If": ["HasJobs", "4096", "2048"]}
    (container,) = task["ContainerDefinitions"]
    switches = {one["Name"]: one["Value"] for one in container["Environment"]}
    assert switches["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == {"Ref": "BackgroundJobs"}


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
    assert said in " ".join(deploy(host, "wrong", *arguments, code=USAGE).output.split())


def test_the_server_may_no_more_than_a_writer():
    resources = server_template("mlflow")["Resources"]
    (policy,) = resources["ServerRole"]["Properties"]["Policies"]
    allowed = {a for one in policy["PolicyDocument"]["Statement"] for a in one["Action"]}
    assert {a for a in allowed if a.startswith("dynamodb:")} == {
        f"dynamodb:{action}" for action in ROLES["writer"]
    }
