"""Scheduled cleanup: the resources of a stack, on moto, and the function that they call."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from mlflow_dynamodbstore.cli.exits import USAGE
from mlflow_dynamodbstore.deploy import scheduled_cleanup
from mlflow_dynamodbstore.deploy.cleanup_schedule import DAILY, HANDLER, IMAGE, SCHEDULE
from mlflow_dynamodbstore.deploy.iam import ROLES, policy
from mlflow_dynamodbstore.deploy.stacks import Stack
from mlflow_dynamodbstore.deploy.template import RESOURCE, template
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.upkeep import segmented_scan
from tests.deploy.aws import REGION, client, deploy, stack
from tests.engines import ROOT
from tests.stores import uri_on

AN_IMAGE = "cleanup:1"


def rules_of(host: str, name: str) -> list[dict[str, Any]]:
    rules = client("events", host).list_rules()["Rules"]
    return [rule for rule in rules if rule["Name"].startswith(f"{name}-")]


# --- the stack ----------------------------------------------------------------------------------


def test_a_stack_without_an_image_has_a_table_and_nothing_else(host: str):
    list(stack(host, "plain").deploy())
    found = client("cloudformation", host).list_stack_resources(StackName="plain")
    kinds = [one["ResourceType"] for one in found["StackResourceSummaries"]]
    assert kinds == ["AWS::DynamoDB::Table"]
    assert rules_of(host, "plain") == []


def test_a_stack_with_an_image_calls_it_on_schedule(host: str):
    """EventBridge calls the function; the function has a role that is made for it."""
    list(stack(host, "timed").deploy({IMAGE: AN_IMAGE, SCHEDULE: "cron(0 3 * * ? *)"}))
    (rule,) = rules_of(host, "timed")
    assert (rule["ScheduleExpression"], rule["State"]) == ("cron(0 3 * * ? *)", "ENABLED")
    (target,) = client("events", host).list_targets_by_rule(Rule=rule["Name"])["Targets"]
    functions = client("lambda", host)
    found = functions.get_function(FunctionName=target["Arn"])
    made = found["Configuration"]
    assert found["Code"]["ImageUri"] == AN_IMAGE
    uri = made["Environment"]["Variables"]["MLFLOW_TRACKING_URI"]
    assert uri == f"dynamodb://{REGION}/timed"
    assert made["Timeout"] == 900
    allowed = json.loads(functions.get_policy(FunctionName=target["Arn"])["Policy"])["Statement"]
    assert allowed[0]["Principal"]["Service"] == "events.amazonaws.com"
    assert made["Role"].rpartition("/")[2].startswith("timed-CleanupRole")


def test_the_role_may_clean_up_one_table_and_write_a_log(host: str):
    list(stack(host, "roles").deploy({IMAGE: AN_IMAGE}))
    iam = client("iam", host)
    (name,) = [
        role["RoleName"]
        for role in iam.list_roles()["Roles"]
        if role["RoleName"].startswith("roles-CleanupRole")
    ]
    given = iam.get_role_policy(RoleName=name, PolicyName="cleanup")["PolicyDocument"]
    # moto answers with the policy as Python writes it.
    table, logs = ast.literal_eval(str(given))["Statement"]
    assert table["Action"] == sorted(f"dynamodb:{action}" for action in ROLES["cleanup"])
    (arn, index) = table["Resource"]
    assert arn.endswith(":table/roles")
    assert index == f"{arn}/index/*"
    assert logs["Action"] == ["logs:CreateLogStream", "logs:PutLogEvents"]


def test_an_update_that_says_nothing_of_the_schedule_keeps_it(host: str):
    kept = stack(host, "kept")
    list(kept.deploy({IMAGE: AN_IMAGE, SCHEDULE: "rate(7 days)"}))
    list(kept.deploy())
    assert kept.parameters() == {IMAGE: AN_IMAGE, SCHEDULE: "rate(7 days)"}
    assert [rule["ScheduleExpression"] for rule in rules_of(host, "kept")] == ["rate(7 days)"]


def test_a_table_deployed_before_gets_a_schedule(host: str):
    late = stack(host, "late")
    list(late.deploy())
    list(late.deploy({IMAGE: AN_IMAGE}))
    assert [rule["ScheduleExpression"] for rule in rules_of(host, "late")] == [DAILY]
    table = client("dynamodb", host).describe_table(TableName="late")["Table"]
    assert table["TableStatus"] == "ACTIVE"


class Scheduled:
    """A stack with a schedule; moto cannot remove a function from a stack."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []

    def describe_stacks(self, **_: str) -> dict[str, Any]:
        kept = [{"ParameterKey": IMAGE, "ParameterValue": AN_IMAGE}]
        return {"Stacks": [{"StackStatus": "UPDATE_COMPLETE", "Parameters": kept}]}

    def describe_stack_events(self, **_: str) -> dict[str, Any]:
        return {"StackEvents": []}

    def update_stack(self, **request: Any) -> dict[str, Any]:
        self.requests.append(request)
        return {}


def test_an_empty_image_ends_the_schedule():
    scheduled = Scheduled()
    known = Stack("mlflow", "mlflow", REGION, client=scheduled, sleep=lambda _: None)
    list(known.deploy())
    list(known.deploy({IMAGE: ""}))
    kept, ended = scheduled.requests
    assert json.loads(kept["TemplateBody"]) == template("mlflow", cleanup_image=AN_IMAGE)
    assert kept["Parameters"] == []  # it is the template's default
    assert json.loads(ended["TemplateBody"]) == template("mlflow")
    assert "Parameters" not in ended
    assert "Capabilities" not in ended


def test_the_template_of_a_table_alone_asks_for_nothing_more():
    """Whoever does not schedule a cleanup needs no permission to make roles."""
    body = template("mlflow")
    assert list(body["Resources"]) == [RESOURCE]
    assert "Parameters" not in body
    resources = template("mlflow", cleanup_image=AN_IMAGE)["Resources"]
    assert resources["CleanupFunction"]["Properties"]["ImageConfig"] == {"Command": [HANDLER]}


# --- the command line ---------------------------------------------------------------------------


def test_deploy_takes_an_image_and_a_schedule(host: str):
    deploy(host, "asked", "--cleanup-image", AN_IMAGE, "--cleanup-schedule", "rate(7 days)")
    assert [rule["ScheduleExpression"] for rule in rules_of(host, "asked")] == ["rate(7 days)"]
    deploy(host, "asked", "--cleanup-schedule", DAILY)
    assert [rule["ScheduleExpression"] for rule in rules_of(host, "asked")] == [DAILY]
    printed = json.loads(deploy(host, "asked", "--template", "--cleanup-image", AN_IMAGE).stdout)
    assert printed["Parameters"][IMAGE]["Default"] == AN_IMAGE


def test_a_schedule_without_an_image_is_refused(host: str):
    said = deploy(host, "imageless", "--cleanup-schedule", DAILY, code=USAGE).output
    assert "needs --cleanup-image" in said


def test_an_operator_who_schedules_needs_more():
    plain = policy("operator", "mlflow", REGION, "mlflow")["Statement"]
    more = policy("operator", "mlflow", REGION, "mlflow", schedule=True)["Statement"]
    added = {action.partition(":")[0] for one in more[len(plain) :] for action in one["Action"]}
    assert added == {"events", "iam", "lambda", "logs", "ecr"}
    named = [arn for one in more[len(plain) :] for arn in one["Resource"] if "ecr" not in arn]
    assert all("mlflow-*" in arn for arn in named)
    assert policy("writer", "m", REGION, "m", schedule=True) == policy("writer", "m", REGION, "m")


# --- the function -------------------------------------------------------------------------------


class Remaining:
    """The time that Lambda leaves a call: as many answers as given, then the last one for ever."""

    def __init__(self, *milliseconds: int) -> None:
        self.milliseconds = list(milliseconds)

    def get_remaining_time_in_millis(self) -> int:
        return self.milliseconds.pop(0) if len(self.milliseconds) > 1 else self.milliseconds[0]


@pytest.fixture(params=["embedded", "dynoxide"])
def uri(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    with uri_on(request.param, tmp_path) as found:
        monkeypatch.setenv(scheduled_cleanup.TABLE, found)
        open_engine(found, create=True).close()
        yield found


def put_orphans(uri: str, count: int) -> list[Key]:
    table = Table(open_engine(uri))
    run_id = ids.new_id("0", now_ms=1_700_000_000_000)
    keys = [Key("EXP#0", run_keys.run_tag(run_id, f"tag {n}")) for n in range(count)]
    for key in keys:
        table.put({"PK": key.pk, "SK": key.sk, "value": "blue"})
    table.close()
    return keys


def test_a_call_cleans_up_the_table_that_its_variable_names(uri: str):
    keys = put_orphans(uri, 3)
    report = scheduled_cleanup.handler({}, Remaining(900_000))
    assert (report["dated"], report["removed"], report["finished"]) == (3, 0, True)
    table = Table(open_engine(uri))
    assert table.get_many(keys) == {}
    table.close()


def test_a_call_ends_in_time_and_the_next_one_resumes(uri: str, monkeypatch: pytest.MonkeyPatch):
    """Even with suspects, which are checked before the position is noted."""
    put_orphans(uri, 30)
    table = Table(open_engine(uri))
    table.put({"PK": "EXP#12", "SK": "E#TAG#team", "value": "x"})
    table.close()
    monkeypatch.setattr(scheduled_cleanup, "GRACE_SECONDS", 0.1)
    monkeypatch.setattr(scheduled_cleanup, "SEGMENTS", 1)
    monkeypatch.setattr(segmented_scan, "PAGE_ITEMS", 5)
    calls = [scheduled_cleanup.handler({}, Remaining(100_000))]
    while not calls[-1]["finished"]:
        assert len(calls) < 20
        calls.append(scheduled_cleanup.handler({}, Remaining(100_000)))
    assert len(calls) > 2
    assert all(call["resumed"] for call in calls[1:])
    assert calls[-1]["dated"] == 31


def test_the_image_runs_the_handler():
    text = (ROOT / "tools" / "cleanup.Dockerfile").read_text()
    assert f'CMD ["{HANDLER}"]' in text
    module, _, name = HANDLER.rpartition(".")
    assert getattr(import_module(module), name) is scheduled_cleanup.handler
