"""The Terraform module: checked as ``terraform validate`` would, and compared with the stack."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from typing import Any

import pytest
from tfparse import load_from_path

from mlflow_dynamodbstore.deploy.iam import ROLES
from mlflow_dynamodbstore.deploy.server_stack import SCHEDULES, server_template
from mlflow_dynamodbstore.table.dynamodb.definition import table_definition
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from tests.deploy.terraform_checks import Module, problems
from tests.engines import ROOT

FOLDER = ROOT / "packaging" / "terraform"
FILES = [path.read_text() for path in sorted(FOLDER.glob("*.tf"))]
STACK = server_template("mlflow")["Resources"]


def test_every_name_type_and_reference_is_right():
    assert problems(Module.read(FILES)) == []


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("treat_missing_data  =", "missing_data  =", "has no argument missing_data"),
        ("  comparison_operator =", "  # comparison_operator =", "lacks the argument comparison_"),
        ('hash_key        = "gsi1pk"', "hash_key = [1]", "hash_key is not a string"),
        ("retention_in_days = 30", 'retention_in_days = "long"', "is not a number"),
        ("  ttl {", "  time_to_live {", "has no block time_to_live"),
        ('protocol  = "email"', "", "lacks the argument protocol"),
        ("versioning_configuration {", "x {", "lacks the block versioning_configuration"),
        ('var.alarm_email == ""', 'var.email == ""', "var.email is not declared"),
        ("aws_lb.mlflow.arn_suffix }", "aws_lb.mlflow.suffix }", "has no attribute suffix"),
        ("aws_lb.mlflow.dns_name", "aws_lb.other.dns_name", "aws_lb.other is not declared"),
        ('own["server"].arn', "own.arn", "aws_iam_role.own is several"),
        ("aws_lb.mlflow.dns_name", "aws_lb.mlflow[0].dns_name", "aws_lb.mlflow is not several"),
        ('server   = "ecs-tasks"', 'server = aws_iam_role.own["start"].name', "a cycle: "),
        ("port    = 5000", "port = 5000\n  more = 1", "local.more is not used"),
    ],
)  # fmt: skip
def test_a_mistake_is_found(right: str, wrong: str, said: str):
    changed = [text.replace(right, wrong, 1) for text in FILES]
    assert changed != FILES
    assert said in "; ".join(problems(Module.read(changed)))


# --- what it makes ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made() -> dict[str, dict[str, Any]]:
    """The resources by type and name, with Terraform's expressions evaluated."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    for kind, blocks in load_from_path(str(FOLDER)).items():
        for block in blocks:
            found[kind][block["__tfmeta"]["path"].partition(".")[2]] = block
    return found


def camel(name: str) -> str:
    return "".join(part.title() for part in re.split(r"[-_]", name))


def test_the_module_makes_the_same_table(made: dict[str, dict[str, Any]]):
    (table,) = made["aws_dynamodb_table"].values()
    defined = table_definition(MLFLOW_TABLE, "x")
    assert (table["hash_key"], table["range_key"]) == ("PK", "SK")
    assert {(a["name"], a["type"]) for a in table["attribute"]} == {
        (a["AttributeName"], a["AttributeType"]) for a in defined["AttributeDefinitions"]
    }
    assert {
        (i["name"], i["range_key"], i["projection_type"]) for i in table["local_secondary_index"]
    } == {
        (i["IndexName"], i["KeySchema"][1]["AttributeName"], i["Projection"]["ProjectionType"])
        for i in defined["LocalSecondaryIndexes"]
    }
    assert {
        (i["name"], i["hash_key"], i["range_key"], i["projection_type"])
        for i in table["global_secondary_index"]
    } == {
        (
            i["IndexName"],
            i["KeySchema"][0]["AttributeName"],
            i["KeySchema"][1]["AttributeName"],
            i["Projection"]["ProjectionType"],
        )
        for i in defined["GlobalSecondaryIndexes"]
    }
    assert table["billing_mode"] == "PAY_PER_REQUEST"
    assert table["deletion_protection_enabled"] is True


def test_the_module_has_the_alarms_of_the_stack(made: dict[str, dict[str, Any]]):
    alarms = {
        name: one["Properties"]
        for name, one in STACK.items()
        if one["Type"] == "AWS::CloudWatch::Alarm"
    }
    ours = {
        camel(one["alarm_name"].removeprefix("mlflow-")): one
        for one in made["aws_cloudwatch_metric_alarm"].values()
    }
    assert ours.keys() == alarms.keys()
    for name, alarm in alarms.items():
        assert {
            "AlarmDescription": ours[name]["alarm_description"],
            "ComparisonOperator": ours[name]["comparison_operator"],
            "EvaluationPeriods": ours[name]["evaluation_periods"],
            "TreatMissingData": ours[name]["treat_missing_data"],
        } == {fact: alarm[fact] for fact in _COMPARED}
        for theirs, fact in _OPTIONAL.items():
            assert ours[name].get(fact) == named(alarm.get(theirs)), (name, fact)
        assert len(ours[name].get("metric_query", ())) == len(alarm.get("Metrics", ()))
    filters = {
        one["metric_transformation"]["name"]: one["pattern"]
        for one in made["aws_cloudwatch_log_metric_filter"].values()
    }
    assert filters == {
        one["Properties"]["MetricTransformations"][0]["MetricName"]: one["Properties"][
            "FilterPattern"
        ]
        for one in STACK.values()
        if one["Type"] == "AWS::Logs::MetricFilter"
    }


def named(value: Any) -> Any:
    """A property of the stack, with its name put in."""
    if isinstance(value, dict) and "Fn::Sub" in value:
        return value["Fn::Sub"].replace("${AWS::StackName}", "mlflow")
    return value


_COMPARED = ("AlarmDescription", "ComparisonOperator", "EvaluationPeriods", "TreatMissingData")
_OPTIONAL = {
    "Namespace": "namespace",
    "MetricName": "metric_name",
    "Statistic": "statistic",
    "Period": "period",
    "Threshold": "threshold",
    "ThresholdMetricId": "threshold_metric_id",
}


def test_the_module_has_the_schedules_and_commands_of_the_stack(made: dict[str, dict[str, Any]]):
    rules = [r for r in made["aws_cloudwatch_event_rule"].values() if "for_each" in r]
    assert {one["schedule_expression"] for one in rules} == set(SCHEDULES.values())
    jobs = rules[0]["for_each"]
    for name, job in jobs.items():
        (theirs,) = STACK[f"{name.title()}Task"]["Properties"]["ContainerDefinitions"]
        (command,) = theirs["Command"]
        words, expected = job["command"].split(), command["Fn::Sub"].split()
        assert [word for word in words if "://" not in word] == [
            word for word in expected if "://" not in word
        ]


def test_the_module_reports_failed_upkeep_as_the_stack_does(made: dict[str, dict[str, Any]]):
    rule = made["aws_cloudwatch_event_rule"]["upkeep_failed"]
    pattern, expected = (
        json.loads(rule["event_pattern"]),
        STACK["UpkeepFailed"]["Properties"]["EventPattern"],
    )
    assert pattern["detail"].pop("clusterArn")
    wanted = {name: one for name, one in expected["detail"].items() if name != "clusterArn"}
    assert pattern == {**expected, "detail": wanted}
    document = made["aws_iam_policy_document"]["aws_iam_policy_document.alarms"]
    (statement,) = STACK["AlarmPolicy"]["Properties"]["PolicyDocument"]["Statement"]
    allowed = document["statement"]
    allowed = allowed[0] if isinstance(allowed, list) else allowed
    principals = allowed["principals"]
    principals = principals[0] if isinstance(principals, list) else principals
    assert principals["identifiers"] == statement["Principal"]["Service"]


def test_the_module_gives_servers_with_jobs_the_memory_of_the_stack(
    made: dict[str, dict[str, Any]],
):
    task = made["aws_ecs_task_definition"]["server"]
    theirs = STACK["ServerTask"]["Properties"]
    assert [str(task["cpu"]), str(task["memory"])] == [
        theirs["Cpu"]["Fn::If"][1],
        theirs["Memory"]["Fn::If"][1],
    ]


def test_the_module_has_the_permissions_of_the_stack(made: dict[str, dict[str, Any]]):
    documents = made["aws_iam_policy_document"]
    roles = {name for name, one in STACK.items() if one["Type"] == "AWS::IAM::Role"}
    assert {camel(key) + "Role" for key in _keys(made["aws_iam_role"])} == roles
    assert _keys(made["aws_iam_role"]) == _keys(made["aws_iam_role_policy"])
    for role in sorted(_keys(made["aws_iam_role"])):
        statements = documents[f"aws_iam_policy_document.{role}"]["statement"]
        (policy,) = STACK[f"{camel(role)}Role"]["Properties"]["Policies"]
        expected = [sorted(one["Action"]) for one in policy["PolicyDocument"]["Statement"]]
        assert [sorted(one["actions"]) for one in statements] == expected
    written = json.dumps(
        [one["actions"] for one in documents["aws_iam_policy_document.server"]["statement"]]
    )
    assert all(f'"dynamodb:{action}"' in written for action in ROLES["writer"])


def _keys(made: dict[str, Any]) -> set[str]:
    """The keys of resources with ``for_each``."""
    return {re.findall(r'\["(.*)"\]', name)[0] for name in made}
