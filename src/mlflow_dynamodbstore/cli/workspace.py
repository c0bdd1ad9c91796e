"""``workspace``: the workspaces of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import RESUMES, Group, yes_option
from mlflow_dynamodbstore.cli.limits import WORKSPACE_DELETION_MODES
from mlflow_dynamodbstore.cli.output import escape
from mlflow_dynamodbstore.cli.table_options import TableOptions, pass_table_options

if TYPE_CHECKING:
    from mlflow.entities import Workspace

    from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore

LOADS = "mlflow_dynamodbstore.workspaces.store"


@click.group(cls=Group)
def workspace() -> None:
    """List, create and delete workspaces."""


@workspace.command("list", loads=LOADS)
@pass_table_options
def list_(options: TableOptions, json: bool) -> None:
    """List the workspaces."""
    from mlflow_dynamodbstore.workspaces.store import SETTINGS

    found = list(_store(options).list_workspaces())
    if json:
        output.as_json([_facts(one) for one in found])
        return
    rows = [(one.name, *(escape(_facts(one)[name] or "") for name in SETTINGS)) for one in found]
    columns = ("name", "description", "artifacts", "trace archive", "trace retention")
    output.grid("Workspaces", columns, rows)


@workspace.command(
    loads=LOADS,
    stopped="Stopped. The workspace may have been created; `workspace list` tells.",
    creates=True,
)
@click.argument("name")
@click.option("--description", help="What it is for.")
@click.option("--default-artifact-root", help="Where its experiments keep their artifacts.")
@pass_table_options
def create(
    options: TableOptions,
    name: str,
    description: str | None,
    default_artifact_root: str | None,
    json: bool,
) -> None:
    """Create a workspace."""
    from mlflow.entities import Workspace

    new = Workspace(name, description, default_artifact_root)
    made = _store(options, may_create=True).create_workspace(new)
    if json:
        output.as_json(_facts(made))
    else:
        output.say(f"Workspace [bold]{escape(made.name)}[/] created.")


@workspace.command(loads=LOADS, stopped=RESUMES)
@click.argument("name")
@click.option(
    "--mode",
    type=click.Choice(WORKSPACE_DELETION_MODES),
    default="restrict",
    show_default=True,
    help="cascade: delete its contents; restrict: refuse unless it is empty; set_default: move its "
    "contents to the default workspace.",
)
@yes_option
@pass_table_options
def delete(options: TableOptions, name: str, mode: str, yes: bool, json: bool) -> None:
    """Delete a workspace."""
    from mlflow.entities.workspace import WorkspaceDeletionMode

    output.confirm(f"Delete the workspace {name} ({mode})?", yes=yes)
    with output.bar(f"deleting {escape(name)}", quiet=json):
        _store(options).delete_workspace(name, WorkspaceDeletionMode(mode.upper()))
    if json:
        output.as_json({"deleted": name, "mode": mode})
    else:
        output.say(f"Workspace [bold]{escape(name)}[/] deleted.")


def _store(options: TableOptions, *, may_create: bool = False) -> DynamoDBWorkspaceStore:
    from mlflow_dynamodbstore.workspaces.store import DynamoDBWorkspaceStore

    return DynamoDBWorkspaceStore("", table=options.table(may_create=may_create))


def _facts(one: Workspace) -> dict[str, str | None]:
    from mlflow_dynamodbstore.workspaces.store import SETTINGS

    return {"name": one.name, **{name: getattr(one, name) for name in SETTINGS}}
