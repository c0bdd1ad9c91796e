"""``deploy``, ``destroy`` and ``iam-policy``: a table on AWS, and the permissions for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import Command, yes_option
from mlflow_dynamodbstore.cli.exits import USAGE, Failure
from mlflow_dynamodbstore.cli.output import escape
from mlflow_dynamodbstore.cli.table_options import TableOptions, pass_table_options
from mlflow_dynamodbstore.deploy.cleanup_schedule import DAILY, IMAGE, SCHEDULE
from mlflow_dynamodbstore.deploy.iam import ROLES, policy
from mlflow_dynamodbstore.table.errors import TableMissing
from mlflow_dynamodbstore.table.location import Location
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE

if TYPE_CHECKING:
    from mlflow_dynamodbstore.deploy.stacks import Event, Stack

AWS_GOES_ON = "Stopped. AWS continues; run the same command again to follow it."
stack_option = click.option(
    "--stack-name", "stack", help="Name of the stack. [default: the table's name]"
)
WHOLE = "server"


@click.command(cls=Command, stopped=AWS_GOES_ON, creates=True)
@stack_option
@click.option(
    "--stack",
    "what",
    type=click.Choice(["table", WHOLE]),
    default="table",
    show_default=True,
    help="The table alone, or all: bucket, roles, server on Fargate, upkeep, alarms.",
)
@click.option(
    "--parameter",
    "parameters",
    metavar="NAME=VALUE",
    multiple=True,
    help="A parameter of the stack with the server; may be repeated.",
)
@click.option("--template", "only_template", is_flag=True, help="Only print the template.")
@click.option(
    "--cleanup-image",
    metavar="URI",
    help="Container image that runs `ttl cleanup` on a schedule; '' ends the schedule.",
)
@click.option(
    "--cleanup-schedule",
    metavar="EXPRESSION",
    help=f"When the cleanup runs: an EventBridge expression. [default: {DAILY}]",
)
@pass_table_options
def deploy(
    options: TableOptions,
    stack: str | None,
    what: str,
    parameters: tuple[str, ...],
    only_template: bool,
    cleanup_image: str | None,
    cleanup_schedule: str | None,
    json: bool,
) -> None:
    """Create the table on AWS with CloudFormation, or update its stack.

    The table outlives its stack, and is protected against deletion. With --cleanup-image the stack
    also runs `ttl cleanup` on a schedule; a later update without the options keeps it.

    --stack server makes the rest, too; its template lists the parameters that it needs.
    """
    from mlflow_dynamodbstore.deploy.template import template

    location = _deployable(options)
    if what == WHOLE:
        if cleanup_image is not None or cleanup_schedule is not None:
            raise Failure("--stack server cleans up by itself: leave out --cleanup-…", USAGE)
        _deploy_server(options, stack, _given(parameters), only_template, json=json)
        return
    if parameters:
        raise Failure("--parameter belongs to --stack server", USAGE)
    if only_template:
        body = template(
            location.table,
            cleanup_image=cleanup_image or "",
            cleanup_schedule_expression=cleanup_schedule or DAILY,
        )
        output.as_json(body)
        return
    made = _stack(location, stack)
    given = {IMAGE: cleanup_image, SCHEDULE: cleanup_schedule}
    chosen = {name: value for name, value in given.items() if value is not None}
    known = made.parameters()
    if known is None and _is_there(options):
        raise Failure(f"{location} already exists, and needs no stack")
    if cleanup_schedule is not None and not {**(known or {}), **chosen}.get(IMAGE):
        raise Failure("--cleanup-schedule needs --cleanup-image", USAGE)
    _report(made.name, made.deploy(chosen), "up to date", json=json)


def _deploy_server(
    options: TableOptions,
    stack: str | None,
    given: dict[str, str],
    only_template: bool,
    *,
    json: bool,
) -> None:
    from mlflow_dynamodbstore.deploy.server_stack import server_template

    location = options.location
    body = server_template(location.table)
    if only_template:
        output.as_json(body)
        return
    made = _stack(location, stack)
    known = made.parameters()
    if known is None and _is_there(options):
        raise Failure(
            f"{location} already exists: the stack would create another. Choose a new name and "
            "`copy` the table, or import it into the stack in CloudFormation"
        )
    unknown = sorted(given.keys() - body["Parameters"].keys())
    if unknown:
        raise Failure(f"the stack has no parameter {unknown[0]}; --template lists them", USAGE)
    missing = [
        name
        for name, parameter in body["Parameters"].items()
        if "Default" not in parameter and name not in {**(known or {}), **given}
    ]
    if missing:
        raise Failure(f"the stack needs --parameter for {', '.join(missing)}", USAGE)
    _report(made.name, made.deploy(given, body), "up to date", json=json)


def _given(parameters: tuple[str, ...]) -> dict[str, str]:
    wrong = [one for one in parameters if "=" not in one]
    if wrong:
        raise Failure(f"--parameter is NAME=VALUE, not {wrong[0]!r}", USAGE)
    return dict(one.split("=", 1) for one in parameters)


@click.command(cls=Command, stopped=AWS_GOES_ON, creates=True)
@stack_option
@click.option("--delete-data", is_flag=True, help="Also delete the table, with all its data.")
@yes_option
@pass_table_options
def destroy(
    options: TableOptions, stack: str | None, delete_data: bool, yes: bool, json: bool
) -> None:
    """Remove the stack of a table; the table stays unless --delete-data is given."""
    location = _deployable(options)
    found = _stack(location, stack)
    if not found.exists() and not delete_data:
        raise Failure(f"there is no stack {found.name}; --stack-name names another")
    what = "and the table with ALL ITS DATA" if delete_data else "and keep the table"
    output.confirm(f"Remove the stack {found.name} {what}?", yes=yes)
    _report(found.name, found.destroy(), "removed", json=json)
    if delete_data:
        from mlflow_dynamodbstore.table.dynamodb import DynamoDBEngine

        engine = DynamoDBEngine(
            location.table,
            MLFLOW_TABLE,
            region=location.region,
            endpoint_url=location.endpoint or None,
        )
        with output.spinner(f"deleting {location}"):
            engine.remove()


@click.command("iam-policy", cls=Command, creates=True)
@click.argument("role", type=click.Choice(list(ROLES)))
@click.option("--account", default="*", show_default=True, help="Number of the AWS account.")
@stack_option
@click.option("--xray", is_flag=True, help="Also allow fetching spans from X-Ray.")
@click.option("--schedule", is_flag=True, help="Also allow an operator to schedule the cleanup.")
@pass_table_options
def iam_policy(
    options: TableOptions,
    role: str,
    account: str,
    stack: str | None,
    xray: bool,
    schedule: bool,
    json: bool,
) -> None:
    """Print the IAM policy with the least permissions that a role needs.

    Take reader for those who only read, writer for MLflow's server and its clients, cleanup for
    `ttl cleanup` alone, and operator for this program. The output is always JSON.
    """
    del json
    if account != "*" and not (len(account) == 12 and account.isdecimal()):
        raise Failure(f"{account!r} is not the number of an AWS account: 12 digits, or '*'", USAGE)
    location = options.location
    if location.kind == "file":
        raise Failure("a file has no IAM policy: its file permissions apply", USAGE)
    name = stack or location.table
    output.as_json(
        policy(role, location.table, location.region, name, account, xray=xray, schedule=schedule)
    )


def _deployable(options: TableOptions) -> Location:
    location = options.location
    if location.kind == "file":
        raise Failure("a file needs no stack: it is created when it is first opened", USAGE)
    return location


def _is_there(options: TableOptions) -> bool:
    from mlflow_dynamodbstore.table.uri import open_engine

    try:
        open_engine(options.uri, create=False).close()
    except TableMissing:
        return False
    return True


def _stack(location: Location, stack: str | None) -> Stack:
    from mlflow_dynamodbstore.deploy.stacks import Stack

    return Stack(
        stack or location.table, location.table, location.region, location.endpoint or None
    )


def _report(stack: str, events: Iterable[Event], done: str, *, json: bool) -> None:
    """Print the events of a stack as they happen, and the result."""
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
