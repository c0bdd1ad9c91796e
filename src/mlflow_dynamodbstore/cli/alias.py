"""``alias``: aliases of registered models, their second versions and their history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import Group, WholeNumber, yes_option
from mlflow_dynamodbstore.cli.exits import NO_TABLE, Failure
from mlflow_dynamodbstore.cli.limits import DEFAULT_WORKSPACE, MAX_ALIAS_WEIGHT
from mlflow_dynamodbstore.cli.output import escape
from mlflow_dynamodbstore.cli.table_options import TableOptions, pass_table_options

if TYPE_CHECKING:
    from mlflow_dynamodbstore.registry.alias_changes import AliasChange
    from mlflow_dynamodbstore.registry.items import Target
    from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore

F = TypeVar("F", bound=Callable[..., Any])

NOWHERE = "-"
LOADS = "mlflow_dynamodbstore.registry.store"
UNSURE = "Stopped. The alias may have been changed; `alias history` tells."

workspace_option: Callable[[F], F] = click.option(
    "--workspace", default=DEFAULT_WORKSPACE, show_default=True, help="Workspace of the model."
)


@click.group(cls=Group)
def alias() -> None:
    """Manage aliases of registered models: set, split traffic, show history, roll back."""


@alias.command(loads=LOADS)
@click.argument("model")
@click.argument("name", metavar="[ALIAS]", required=False)
@click.option("--key", help="Also show the version that this routing key gets.")
@workspace_option
@pass_table_options
def show(
    options: TableOptions, model: str, name: str | None, key: str | None, workspace: str, json: bool
) -> None:
    """Show the version of an alias, or of all aliases of a model."""
    registry = _registry(options, workspace)
    found = registry.list_registered_model_aliases(model)
    if name is not None:
        found = {name: _existing(model, name, found)}
    facts = [_facts(model, alias_name, target, key) for alias_name, target in found.items()]
    if json:
        output.as_json(facts if name is None else facts[0])
        return
    columns = ["alias", "version", "second", "weight", *([f"for {key}"] if key else [])]
    rows = [
        [escape(one["alias"]), *(_shown(one.get(field)) for field in _COLUMNS[: len(columns) - 1])]
        for one in facts
    ]
    output.grid(f"Aliases of {escape(model)}", columns, rows, numbers=columns[1:])


@alias.command(loads=LOADS)
@click.argument("name", metavar="ALIAS")
@workspace_option
@pass_table_options
def find(options: TableOptions, name: str, workspace: str, json: bool) -> None:
    """List the models that have an alias, and the version it points at in each."""
    found = _registry(options, workspace).find_registered_models_with_alias(name)
    facts = [_facts(model, name, target) for model, target in found.items()]
    if json:
        output.as_json(facts)
        return
    if not facts:
        output.say(f"No model has the alias {escape(name)}.")
        return
    rows = [
        [escape(one["model"]), *(_shown(one[field]) for field in _COLUMNS[:3])] for one in facts
    ]
    columns = ["model", "version", "second", "weight"]
    output.grid(f"Models with alias {escape(name)}", columns, rows, numbers=columns[1:])


@alias.command("set", loads=LOADS, stopped=UNSURE)
@click.argument("model")
@click.argument("name", metavar="ALIAS")
@click.argument("version")
@workspace_option
@pass_table_options
def set_(
    options: TableOptions, model: str, name: str, version: str, workspace: str, json: bool
) -> None:
    """Point an alias at one version; this also ends a split."""
    registry = _registry(options, workspace)
    registry.set_registered_model_alias(model, name, version)
    _tell(model, name, registry.get_registered_model_alias(model, name), json=json)


@alias.command(loads=LOADS, stopped=UNSURE)
@click.argument("model")
@click.argument("name", metavar="ALIAS")
@click.argument("version")
@click.option(
    "--weight",
    type=WholeNumber(0, MAX_ALIAS_WEIGHT),
    required=True,
    help="Percent of requests that get it.",
)
@workspace_option
@pass_table_options
def split(
    options: TableOptions,
    model: str,
    name: str,
    version: str,
    weight: int,
    workspace: str,
    json: bool,
) -> None:
    """Give a second version of an alias to a share of requests."""
    registry = _registry(options, workspace)
    _existing(model, name, registry.list_registered_model_aliases(model))
    target = registry.split_registered_model_alias(model, name, version, weight)
    _tell(model, name, target, json=json)


@alias.command(loads=LOADS)
@click.argument("model")
@click.argument("name", metavar="[ALIAS]", required=False)
@click.option(
    "--limit",
    type=WholeNumber(min=1),
    default=50,
    show_default=True,
    help="How many changes to list.",
)
@workspace_option
@pass_table_options
def history(
    options: TableOptions, model: str, name: str | None, limit: int, workspace: str, json: bool
) -> None:
    """List the changes of an alias, or of all aliases of a model, newest first."""
    changes = _registry(options, workspace).list_registered_model_alias_changes(model, name)[:limit]
    if name is not None and not changes:
        raise Failure(
            f"there is no recorded change of alias {name!r} of the model {model!r}", NO_TABLE
        )
    if json:
        output.as_json([_change_facts(change) for change in changes])
        return
    rows = [
        (
            change.change_id,
            escape(change.alias),
            _points_at(change.before),
            _points_at(change.after),
            _time(change.timestamp),
            escape(change.user or NOWHERE),
        )
        for change in changes
    ]
    columns = ("change", "alias", "before", "after", "at", "by")
    output.grid(f"Changes of the aliases of {escape(model)}", columns, rows)


@alias.command(loads=LOADS, stopped=UNSURE)
@click.argument("model")
@click.argument("name", metavar="ALIAS")
@click.option(
    "--to",
    "change_id",
    metavar="CHANGE",
    help="Return to the state after this change. [default: before the last change]",
)
@workspace_option
@pass_table_options
def rollback(
    options: TableOptions, model: str, name: str, change_id: str | None, workspace: str, json: bool
) -> None:
    """Undo the last change of an alias, or return to an earlier one. The rollback is recorded."""
    from mlflow_dynamodbstore.registry.alias_changes import CHANGE_DIGITS

    if change_id is not None and not change_id.isdecimal():
        raise ValueError(f"{change_id!r} is not a change; `alias history {model}` lists them")
    wanted = None if change_id is None else change_id.zfill(CHANGE_DIGITS)
    target = _registry(options, workspace).rollback_registered_model_alias(model, name, wanted)
    _tell(model, name, target, json=json)


@alias.command(loads=LOADS, stopped=UNSURE)
@click.argument("model")
@click.argument("name", metavar="ALIAS")
@workspace_option
@yes_option
@pass_table_options
def delete(
    options: TableOptions, model: str, name: str, workspace: str, yes: bool, json: bool
) -> None:
    """Delete an alias. Its history stays, and `alias rollback` restores it."""
    registry = _registry(options, workspace)
    _existing(model, name, registry.list_registered_model_aliases(model))
    output.confirm(f"Delete the alias {name} of {model}?", yes=yes)
    registry.delete_registered_model_alias(model, name)
    _tell(model, name, None, json=json)


def _registry(options: TableOptions, workspace: str) -> DynamoDBRegistryStore:
    from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
    from mlflow_dynamodbstore.shared.context import Context

    @dataclass(frozen=True)
    class InWorkspace(Context):
        """One workspace, whatever the environment of this process says."""

        name: str = DEFAULT_WORKSPACE

        def workspace(self) -> str:
            return self.name

        def has_workspaces(self) -> bool:
            return True

    context = InWorkspace(options.table(), options.policies(), name=workspace)
    return DynamoDBRegistryStore("", context=context)


def _existing(model: str, name: str, found: Mapping[str, Target]) -> Target:
    """The alias of this name. Raises ``Failure`` when the model has none."""
    if name not in found:
        others = f"it has {', '.join(found)}" if found else "it has no aliases"
        raise Failure(f"the model {model!r} has no alias {name!r}: {others}", NO_TABLE)
    return found[name]


# --- what is printed ----------------------------------------------------------------------------

_COLUMNS = ("version", "secondary", "weight", "chosen")


def _facts(model: str, name: str, target: Target, key: str | None = None) -> dict[str, Any]:
    facts = {"model": model, "alias": name, **target._asdict()}
    if key is not None:
        from mlflow_dynamodbstore.registry.alias_routing import chosen_version, routing_key

        with routing_key(key):
            facts["chosen"] = chosen_version(target, model, name)
    return facts


def _change_facts(change: AliasChange) -> dict[str, Any]:
    targets = {"before": change.before, "after": change.after}
    return {**asdict(change), **{name: to and to._asdict() for name, to in targets.items()}}


def _tell(model: str, name: str, target: Target | None, *, json: bool) -> None:
    if json and target is not None:
        output.as_json(_facts(model, name, target))
    elif json:
        output.as_json({"model": model, "alias": name, "deleted": True})
    elif target is None:
        output.say(f"[bold]{escape(model)}@{escape(name)}[/] was deleted.")
    else:
        output.say(f"[bold]{escape(model)}@{escape(name)}[/] points at {_points_at(target)}.")


def _points_at(target: Target | None) -> str:
    if target is None:
        return NOWHERE
    if target.secondary is None:
        return str(target.version)
    return f"{target.version}, {target.weight} % to {target.secondary}"


def _shown(value: int | None) -> str:
    return NOWHERE if value is None else str(value)


def _time(timestamp: int) -> str:
    at = datetime.fromtimestamp(timestamp / 1000, timezone.utc)
    return at.strftime("%Y-%m-%d %H:%M:%S UTC")
