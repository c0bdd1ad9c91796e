"""``alias``: aliases of registered models, their second versions, their history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any, TypeVar

import click
from rich.markup import escape

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import Group, yes_option
from mlflow_dynamodbstore.cli.target import Place, pass_place
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE
from mlflow_dynamodbstore.registry.alias_changes import CHANGE_DIGITS, AliasChange
from mlflow_dynamodbstore.registry.alias_routing import chosen_version, routing_key
from mlflow_dynamodbstore.registry.aliases import MAX_WEIGHT
from mlflow_dynamodbstore.registry.items import Target
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.policies import Policies

F = TypeVar("F", bound=Callable[..., Any])

NOWHERE = "-"

workspace_option: Callable[[F], F] = click.option(
    "--workspace",
    default=DEFAULT_WORKSPACE,
    show_default=True,
    help="Workspace of the model.",
)


@click.group(cls=Group)
def alias() -> None:
    """Aliases of registered models: where they lead, divided traffic, history, the way back."""


@alias.command()
@click.argument("model")
@click.argument("name", metavar="[ALIAS]", required=False)
@click.option("--key", help="Also tell which version this routing key gets.")
@workspace_option
@pass_place
def show(
    place: Place, model: str, name: str | None, key: str | None, workspace: str, json: bool
) -> None:
    """Show where an alias leads, or all aliases of a model."""
    registry = _registry(place, workspace)
    if name is None:
        found = registry.list_registered_model_aliases(model)
    else:
        found = {name: registry.get_registered_model_alias(model, name)}
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


@alias.command("set")
@click.argument("model")
@click.argument("name", metavar="ALIAS")
@click.argument("version")
@workspace_option
@pass_place
def set_(place: Place, model: str, name: str, version: str, workspace: str, json: bool) -> None:
    """Let an alias lead to one version; this also ends a split, either way."""
    registry = _registry(place, workspace)
    registry.set_registered_model_alias(model, name, version)
    _tell(model, name, registry.get_registered_model_alias(model, name), json=json)


@alias.command()
@click.argument("model")
@click.argument("name", metavar="ALIAS")
@click.argument("version")
@click.option(
    "--weight",
    type=click.IntRange(0, MAX_WEIGHT),
    required=True,
    help="Percent of those who ask that get it.",
)
@workspace_option
@pass_place
def split(
    place: Place, model: str, name: str, version: str, weight: int, workspace: str, json: bool
) -> None:
    """Let an alias answer with a second version for a share of those who ask."""
    registry = _registry(place, workspace)
    target = registry.split_registered_model_alias(model, name, version, weight)
    _tell(model, name, target, json=json)


@alias.command()
@click.argument("model")
@click.argument("name", metavar="[ALIAS]", required=False)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="How many changes to list.",
)
@workspace_option
@pass_place
def history(
    place: Place, model: str, name: str | None, limit: int, workspace: str, json: bool
) -> None:
    """List the changes of an alias, or of all aliases of a model, the newest first."""
    changes = _registry(place, workspace).list_registered_model_alias_changes(model, name)[:limit]
    if json:
        output.as_json([_change_facts(change) for change in changes])
        return
    rows = [
        (
            change.change_id,
            escape(change.alias),
            _leads_to(change.before),
            _leads_to(change.after),
            _time(change.timestamp),
            escape(change.user or NOWHERE),
        )
        for change in changes
    ]
    columns = ("change", "alias", "before", "after", "at", "by")
    output.grid(f"Changes of the aliases of {escape(model)}", columns, rows)


@alias.command()
@click.argument("model")
@click.argument("name", metavar="ALIAS")
@click.option(
    "--to",
    "change_id",
    metavar="CHANGE",
    help="As it was after this change; by default, before the last one.",
)
@workspace_option
@pass_place
def rollback(
    place: Place, model: str, name: str, change_id: str | None, workspace: str, json: bool
) -> None:
    """Take back the last change of an alias, or return to an earlier one. This is recorded, too."""
    wanted = None if change_id is None else change_id.zfill(CHANGE_DIGITS)
    target = _registry(place, workspace).rollback_registered_model_alias(model, name, wanted)
    _tell(model, name, target, json=json)


@alias.command()
@click.argument("model")
@click.argument("name", metavar="ALIAS")
@workspace_option
@yes_option
@pass_place
def delete(place: Place, model: str, name: str, workspace: str, yes: bool, json: bool) -> None:
    """Delete an alias; its history stays, and `alias rollback` brings it back."""
    registry = _registry(place, workspace)
    registry.get_registered_model_alias(model, name)
    output.confirm(f"Delete the alias {name} of {model}?", yes=yes)
    registry.delete_registered_model_alias(model, name)
    _tell(model, name, None, json=json)


@dataclass(frozen=True)
class _InWorkspace(Context):
    """One workspace, whatever the environment of this process says."""

    name: str = DEFAULT_WORKSPACE

    def workspace(self) -> str:
        return self.name

    def has_workspaces(self) -> bool:
        return True


def _registry(place: Place, workspace: str) -> DynamoDBRegistryStore:
    table = place.table()
    context = _InWorkspace(table, Policies(table), name=workspace)
    return DynamoDBRegistryStore("", context=context)


# --- what is printed ----------------------------------------------------------------------------

_COLUMNS = ("version", "secondary", "weight", "chosen")


def _facts(model: str, name: str, target: Target, key: str | None = None) -> dict[str, Any]:
    facts = {"model": model, "alias": name, **target._asdict()}
    if key is not None:
        with routing_key(key):
            facts["chosen"] = chosen_version(target, model, name)
    return facts


def _change_facts(change: AliasChange) -> dict[str, Any]:
    moments = {"before": change.before, "after": change.after}
    return {
        **asdict(change),
        **{name: to and to._asdict() for name, to in moments.items()},
    }


def _tell(model: str, name: str, target: Target | None, *, json: bool) -> None:
    if json and target is not None:
        output.as_json(_facts(model, name, target))
    elif json:
        output.as_json({"model": model, "alias": name, "deleted": True})
    elif target is None:
        output.say(f"[bold]{escape(model)}@{escape(name)}[/] is deleted.")
    else:
        output.say(f"[bold]{escape(model)}@{escape(name)}[/] leads to {_leads_to(target)}.")


def _leads_to(target: Target | None) -> str:
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
