"""``deploy``, ``destroy`` and ``iam-policy``: a table on AWS, and who may do what with it."""

from __future__ import annotations

from collections.abc import Iterable

import click
from rich.markup import escape

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import Command, yes_option
from mlflow_dynamodbstore.cli.exits import USAGE, Failure
from mlflow_dynamodbstore.cli.target import Place, pass_place
from mlflow_dynamodbstore.deploy.iam import ROLES, policy
from mlflow_dynamodbstore.deploy.stacks import Event, Stack
from mlflow_dynamodbstore.deploy.template import template
from mlflow_dynamodbstore.table.dynamodb import DynamoDBEngine
from mlflow_dynamodbstore.table.errors import TableMissing
from mlflow_dynamodbstore.table.location import Location
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.uri import open_engine

stack_option = click.option("--stack", help="Name of the stack. [default: the table's name]")


@click.command(cls=Command)
@stack_option
@click.option("--template", "only_template", is_flag=True, help="Only print the template.")
@pass_place
def deploy(place: Place, stack: str | None, only_template: bool, json: bool) -> None:
    """Make the table on AWS with CloudFormation, or bring its stack up to date.

    The table outlives its stack: it is retained, and protected against deletion.
    """
    location = _deployable(place)
    if only_template:
        output.as_json(template(location.table))
        return
    made = _stack(location, stack)
    if not made.exists() and _is_there(place):
        raise Failure(f"{location} is there already, and needs no stack to be used")
    _report(made.name, made.deploy(), "up to date", json=json)


@click.command(cls=Command)
@stack_option
@click.option("--delete-data", is_flag=True, help="Delete the table too, with all that is in it.")
@yes_option
@pass_place
def destroy(place: Place, stack: str | None, delete_data: bool, yes: bool, json: bool) -> None:
    """Remove the stack of a table; the table stays, unless --delete-data is given."""
    location = _deployable(place)
    found = _stack(location, stack)
    if not found.exists() and not delete_data:
        raise Failure(f"there is no stack {found.name}; --stack names another")
    what = "and the table with ALL ITS DATA" if delete_data else "and keep the table"
    output.confirm(f"Remove the stack {found.name} {what}?", yes=yes)
    _report(found.name, found.destroy(), "removed", json=json)
    if delete_data:
        engine = DynamoDBEngine(
            location.table,
            MLFLOW_TABLE,
            region=location.region,
            endpoint_url=location.endpoint or None,
        )
        engine.remove()


@click.command("iam-policy", cls=Command)
@click.argument("role", type=click.Choice(list(ROLES)))
@click.option("--account", default="*", show_default=True, help="Number of the AWS account.")
@stack_option
@click.option("--xray", is_flag=True, help="Allow fetching spans from X-Ray too.")
@pass_place
def iam_policy(
    place: Place, role: str, account: str, stack: str | None, xray: bool, json: bool
) -> None:
    """Print the IAM policy with the least that a role needs.

    A reader only looks, a writer is MLflow's server and clients, an operator is this program. It is
    JSON with or without --json.
    """
    del json
    location = place.location
    if location.kind == "file":
        raise Failure("a file has no IAM policy: who may open it, its permissions say", USAGE)
    name = stack or location.table
    output.as_json(policy(role, location.table, location.region, name, account, xray=xray))


def _deployable(place: Place) -> Location:
    location = place.location
    if location.kind == "file":
        raise Failure("a file needs no stack: it is made when it is first opened", USAGE)
    return location


def _is_there(place: Place) -> bool:
    try:
        open_engine(place.uri, create=False).close()
    except TableMissing:
        return False
    return True


def _stack(location: Location, stack: str | None) -> Stack:
    return Stack(
        stack or location.table, location.table, location.region, location.endpoint or None
    )


def _report(stack: str, events: Iterable[Event], done: str, *, json: bool) -> None:
    """Print what happens while it happens, and how it ended."""
    seen: list[Event] = []
    for event in events:
        seen.append(event)
        if not json:
            _show(event)
    if json:
        output.as_json({"stack": stack, "result": done, "events": [vars(e) for e in seen]})
    else:
        output.say(f"Stack [bold]{escape(stack)}[/] is {done}.")


def _show(event: Event) -> None:
    colour = "red" if event.is_failure else "green" if "COMPLETE" in event.status else "cyan"
    reason = f" {escape(event.reason)}" if event.reason else ""
    output.say(f"  [{colour}]{event.status:<28}[/] {escape(event.resource)}{reason}")
