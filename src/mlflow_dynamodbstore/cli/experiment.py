"""``experiment``: the volumes of an experiment."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import MLFLOW, Group, WholeNumber
from mlflow_dynamodbstore.cli.limits import DEFAULT_WORKSPACE
from mlflow_dynamodbstore.cli.output import escape
from mlflow_dynamodbstore.cli.table_options import TableOptions, pass_table_options

if TYPE_CHECKING:
    from mlflow_dynamodbstore.shared.volume_states import VolumeState
    from mlflow_dynamodbstore.table.table import Table
    from mlflow_dynamodbstore.table.values import Item

F = TypeVar("F", bound=Callable[..., Any])

MOST = 1000

workspace_option: Callable[[F], F] = click.option(
    "--workspace",
    default=DEFAULT_WORKSPACE,
    show_default=True,
    help="Workspace of the experiment.",
)


@click.group(cls=Group)
def experiment() -> None:
    """Show or open the volumes of an experiment."""


@experiment.command(loads=MLFLOW)
@click.argument("name")
@workspace_option
@pass_table_options
def volumes(options: TableOptions, name: str, workspace: str, json: bool) -> None:
    """List the volumes of an experiment, given its name."""
    from mlflow_dynamodbstore.shared.volume_states import states_in

    meta = _find(options.table(), name, workspace)
    _show(name, states_in(meta), json=json)


@experiment.command(
    loads=MLFLOW,
    stopped="Stopped. Volumes may have been opened; `experiment volumes` tells.",
)
@click.argument("name")
@click.option(
    "--volumes",
    "count",
    type=WholeNumber(1, MOST),
    required=True,
    help="Number of volumes that accept new runs and traces.",
)
@workspace_option
@pass_table_options
def spread(options: TableOptions, name: str, count: int, workspace: str, json: bool) -> None:
    """Spread an experiment, given its name, over several volumes.

    A volume accepts about 1,000 write units a second and holds 10 GB. A new one is opened
    automatically before a volume is full; spread an experiment that needs more writes a second. New
    volumes are used after a minute, when all processes know them. Existing data stays where it is.
    """
    from mlflow_dynamodbstore.shared.places import experiment_id_of
    from mlflow_dynamodbstore.shared.volumes import Volumes

    table = options.table()
    states = Volumes(table).spread(experiment_id_of(_find(table, name, workspace)), count)
    _show(name, states, json=json)


def _find(table: Table, name: str, workspace: str) -> Item:
    """META of an experiment, by its name."""
    from mlflow_dynamodbstore.keys import access as access_keys
    from mlflow_dynamodbstore.keys import experiments as experiment_keys
    from mlflow_dynamodbstore.shared.refusals import not_found

    guard = table.get(access_keys.experiment_name_guard(name, workspace))
    found = (
        None
        if guard is None
        else table.get(experiment_keys.experiment_key(str(guard["experiment_id"])))
    )
    if found is None:
        raise not_found(f"There is no experiment {name!r} in the workspace {workspace!r}.")
    return found


def _show(name: str, states: list[VolumeState], *, json: bool) -> None:
    facts = [
        {
            "volume": state.number,
            "announced": state.since or None,
            "closed": state.closed,
            "runs": None if state.runs is None else list(state.runs),
            "traces": None if state.traces is None else list(state.traces),
        }
        for state in states
    ]
    if json:
        output.as_json(facts)
        return
    rows = [
        (
            str(state.number),
            "open" if state.closed is None else "closed",
            _time(state.since),
            _time(state.closed),
        )
        for state in states
    ]
    columns = ("volume", "state", "announced (UTC)", "closed (UTC)")
    output.grid(f"Volumes of {escape(name)}", columns, rows)


def _time(seconds: int | None) -> str:
    if not seconds:
        return "-"
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M")
