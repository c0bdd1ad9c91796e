"""Stacks against moto's CloudFormation, and the policies of the roles."""

from __future__ import annotations

import boto3
import pytest

from mlflow_dynamodbstore.deploy.iam import ROLES, policy
from mlflow_dynamodbstore.deploy.stacks import Stack
from mlflow_dynamodbstore.deploy.template import RESOURCE, template
from mlflow_dynamodbstore.table.dynamodb import DynamoDBEngine
from mlflow_dynamodbstore.table.dynamodb.definition import check_table
from mlflow_dynamodbstore.table.errors import TableError, TableMissing
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.uri import open_engine
from tests.engines import moto_server

REGION = "us-east-1"
SETTLED = ("KeySchema", "AttributeDefinitions", "GlobalSecondaryIndexes", "LocalSecondaryIndexes")


@pytest.fixture(scope="module")
def host():
    with moto_server() as address:
        yield address


@pytest.fixture(autouse=True)
def _credentials(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)


@pytest.fixture
def dynamodb(host):
    return boto3.client("dynamodb", region_name=REGION, endpoint_url=f"http://{host}")


def stack(host, name):
    return Stack(name, name, REGION, f"http://{host}", sleep=lambda _: None)


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


def test_roles_grow_and_a_reader_cannot_write():
    reader, writer, operator = (set(ROLES[role]) for role in ("reader", "writer", "operator"))
    assert reader < writer < operator
    assert not {action for action in reader if "Put" in action or "Write" in action}
    assert "Scan" not in writer
