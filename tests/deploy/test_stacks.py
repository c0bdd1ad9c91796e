"""Stacks against moto's CloudFormation, and the policies of the roles."""

from __future__ import annotations

import json

import boto3
import pytest
from botocore.exceptions import ClientError

from mlflow_dynamodbstore.deploy.iam import ROLES, policy
from mlflow_dynamodbstore.deploy.stacks import Stack, StackFailed
from mlflow_dynamodbstore.deploy.template import RESOURCE, template
from mlflow_dynamodbstore.table.dynamodb import DynamoDBEngine
from mlflow_dynamodbstore.table.dynamodb.definition import check_table
from mlflow_dynamodbstore.table.errors import TableError, TableMissing
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.uri import open_engine
from tests.deploy.aws import REGION, client, stack

SETTLED = ("KeySchema", "AttributeDefinitions", "GlobalSecondaryIndexes", "LocalSecondaryIndexes")


@pytest.fixture
def dynamodb(host):
    return client("dynamodb", host)


def normalised(described):
    """What a table is made of, without what its endpoint adds."""
    facts = {name: described[name] for name in SETTLED}
    for name in SETTLED[2:]:
        facts[name] = sorted(
            (i["IndexName"], str(i["KeySchema"]), i["Projection"]["ProjectionType"])
            for i in described[name]
        )
    facts["AttributeDefinitions"] = sorted(
        (a["AttributeName"], a["AttributeType"]) for a in described["AttributeDefinitions"]
    )
    return facts


def test_the_stack_makes_what_the_engine_would_create(host, dynamodb):
    list(stack(host, "by-stack").deploy())
    open_engine(f"dynamodb://{host}/by-engine", create=True).close()
    by_stack = dynamodb.describe_table(TableName="by-stack")["Table"]
    by_engine = dynamodb.describe_table(TableName="by-engine")["Table"]
    check_table(MLFLOW_TABLE, by_stack)
    assert normalised(by_stack) == normalised(by_engine)
    assert by_stack["BillingModeSummary"] == by_engine["BillingModeSummary"]
    assert by_stack["DeletionProtectionEnabled"] == by_engine["DeletionProtectionEnabled"] is True


def test_a_table_made_by_a_stack_opens_as_ours(host):
    list(stack(host, "opened").deploy())
    engine = open_engine(f"dynamodb://{host}/opened", create=False)
    assert engine.uri == f"dynamodb://{host}/opened"
    engine.close()


def test_the_template_switches_expiry_and_recovery_on_and_retains():
    resource = template("mlflow")["Resources"][RESOURCE]
    properties = resource["Properties"]
    assert properties["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}
    assert properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True
    assert resource["DeletionPolicy"] == resource["UpdateReplacePolicy"] == "Retain"


def test_progress_is_reported_and_a_second_deployment_is_no_error(host):
    made = stack(host, "twice")
    assert not made.exists()
    events = list(made.deploy())
    assert ("twice", "CREATE_COMPLETE") in [(e.resource, e.status) for e in events]
    assert made.exists()
    again = list(made.deploy())
    assert not [event for event in again if event.is_failure]


def test_a_stack_of_an_older_template_is_brought_up_to_date(host, dynamodb):
    """Its table and what is in it stay; what the template has gained is there afterwards.

    moto changes a stack's outputs, and no table: that a property of the table is changed in place,
    only AWS can show.
    """
    older = template("older")
    del older["Outputs"]
    cloudformation = boto3.client(
        "cloudformation", region_name=REGION, endpoint_url=f"http://{host}"
    )
    cloudformation.create_stack(StackName="older", TemplateBody=json.dumps(older))
    dynamodb.put_item(TableName="older", Item={"PK": {"S": "EXP#0"}, "SK": {"S": "E#META"}})
    events = list(stack(host, "older").deploy())
    assert ("older", "UPDATE_COMPLETE") in [(e.resource, e.status) for e in events]
    (described,) = cloudformation.describe_stacks(StackName="older")["Stacks"]
    assert {output["OutputKey"] for output in described["Outputs"]} == {"TableName", "TableArn"}
    assert dynamodb.scan(TableName="older")["Count"] == 1


class ScriptedStack:
    """A CloudFormation whose stack goes through given states, one each time it is asked."""

    def __init__(self, *states, refusal=None, reason=""):
        self.states = list(states)
        self.refusal = refusal
        self.reason = reason
        self.calls = []

    def describe_stacks(self, **_):
        status = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return {"Stacks": [{"StackStatus": status}]}

    def describe_stack_events(self, **_):
        if not self.calls:
            return {"StackEvents": []}
        failed = {
            "EventId": "1",
            "LogicalResourceId": RESOURCE,
            "ResourceStatus": "UPDATE_FAILED",
            "ResourceStatusReason": self.reason,
        }
        return {"StackEvents": [failed] if self.reason else []}

    def update_stack(self, **arguments):
        self.calls.append(json.loads(arguments["TemplateBody"]))
        if self.refusal:
            error = {"Code": "ValidationError", "Message": self.refusal}
            raise ClientError({"Error": error}, "UpdateStack")
        return {}


def scripted(*states, **answers):
    client = ScriptedStack(*states, **answers)
    return client, Stack("mlflow", "mlflow", REGION, client=client, sleep=lambda _: None)


def test_an_update_sends_the_template_and_waits_until_it_has_ended():
    """The old resources are cleaned up behind it; that is waited for too."""
    states = ("CREATE_COMPLETE", "UPDATE_IN_PROGRESS", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
    client, changed = scripted(*states, "UPDATE_COMPLETE")
    assert list(changed.deploy()) == []
    assert client.calls == [template("mlflow")]
    assert client.states == ["UPDATE_COMPLETE"]


def test_a_stack_with_nothing_to_change_is_no_error():
    client, same = scripted("CREATE_COMPLETE", refusal="No updates are to be performed.")
    assert list(same.deploy()) == []
    assert len(client.calls) == 1


def test_an_update_that_is_rolled_back_says_why():
    """A local index cannot be changed on a table that exists, for instance."""
    states = ("UPDATE_COMPLETE", "UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_IN_PROGRESS")
    _, changed = scripted(*states, "UPDATE_ROLLBACK_COMPLETE", reason="cannot replace mlflow")
    with pytest.raises(StackFailed, match="is UPDATE_ROLLBACK_COMPLETE: cannot replace mlflow"):
        list(changed.deploy())


def test_a_stack_that_cannot_be_updated_says_what_to_do():
    """One that failed while it was made has to be removed first."""
    refusal = "Stack:arn is in ROLLBACK_COMPLETE state and can not be updated."
    _, stuck = scripted("ROLLBACK_COMPLETE", refusal=refusal)
    with pytest.raises(StackFailed, match=r"ROLLBACK_COMPLETE .*run `destroy` to remove the stack"):
        list(stuck.deploy())


def test_destroying_removes_the_stack_and_keeps_the_table(host, dynamodb):
    made = stack(host, "gone")
    list(made.deploy())
    events = list(made.destroy())
    assert not made.exists()
    assert not [event for event in events if event.is_failure]
    assert dynamodb.describe_table(TableName="gone")["Table"]["TableStatus"] == "ACTIVE"


def test_a_protected_table_can_be_deleted_with_its_data(host):
    engine = open_engine(f"dynamodb://{host}/doomed", create=True)
    assert isinstance(engine, DynamoDBEngine)
    engine.remove()
    engine.remove()
    engine.close()
    with pytest.raises(TableMissing):
        open_engine(f"dynamodb://{host}/doomed", create=False)


def test_what_cloudformation_refuses_becomes_one_sentence(host):
    wrong = Stack("not_a_stack_name", "mlflow", REGION, "http://127.0.0.1:1", sleep=lambda _: None)
    with pytest.raises(TableError):
        list(wrong.deploy())


@pytest.mark.parametrize("role", ROLES)
def test_a_policy_names_one_table_and_its_indexes(role):
    table, *stacks = policy(role, "mlflow", "eu-west-1", "mlflow", "123456789012")["Statement"]
    arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/mlflow"
    assert table["Resource"] == [arn, f"{arn}/index/*"]
    assert bool(stacks) == (role == "operator")
    assert not [action for action in table["Action"] if "*" in action]


@pytest.mark.parametrize(
    ("region", "begins"),
    [
        ("us-east-1", "arn:aws:"),
        ("cn-north-1", "arn:aws-cn:"),
        ("us-gov-west-1", "arn:aws-us-gov:"),
    ],
)
def test_resources_are_named_as_their_part_of_aws_names_them(region, begins):
    statements = policy("operator", "mlflow", region, "mlflow")["Statement"]
    named = [arn for statement in statements for arn in statement["Resource"]]
    assert all(arn.startswith(begins) for arn in named)


@pytest.mark.parametrize("role", ROLES)
def test_those_who_keep_spans_may_be_allowed_to_fetch_them(role):
    """A reader and a cleanup keep none, and without being asked for it nobody is allowed to."""
    plain = policy(role, "mlflow", REGION, "mlflow")["Statement"]
    allowed = policy(role, "mlflow", REGION, "mlflow", xray=True)["Statement"]
    added = [statement["Action"] for statement in allowed[len(plain) :]]
    keeps_spans = role in ("writer", "operator")
    assert added == ([["xray:BatchGetTraces"]] if keeps_spans else [])


def test_roles_grow_and_a_reader_cannot_write():
    reader, writer, operator = (set(ROLES[role]) for role in ("reader", "writer", "operator"))
    assert reader < writer < operator
    assert not {action for action in reader if "Put" in action or "Write" in action}
    assert "Scan" not in writer
    assert set(ROLES["cleanup"]) - writer == {"Scan"}
