"""``config``: the settings in the table's CONFIG partition."""

from __future__ import annotations

import json as json_format

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import RESUMES, Group
from mlflow_dynamodbstore.cli.table_options import TableOptions, pass_table_options
from mlflow_dynamodbstore.cli.trace_retention import change_trace_retention, say_renewed


@click.group(cls=Group)
def config() -> None:
    """Show and change the settings of the table."""


@config.command("list")
@pass_table_options
def list_(options: TableOptions, json: bool) -> None:
    """List all settings."""
    from mlflow_dynamodbstore.upkeep.settings import SETTINGS, STATE

    policies = options.policies()
    values = policies.all()
    named = sorted({*SETTINGS, *(name for name in values if not name.startswith(STATE))})
    if json:
        output.as_json(
            {name: {"value": values.get(name), "source": policies.source(name)} for name in named}
        )
        return
    rows = [
        (name, _shown(values.get(name)), policies.source(name), _meaning(name)) for name in named
    ]
    output.grid("Settings", ("setting", "value", "from", "meaning"), rows)


@config.command()
@click.argument("name")
@pass_table_options
def get(options: TableOptions, name: str, json: bool) -> None:
    """Print the value of one setting."""
    from mlflow_dynamodbstore.upkeep.settings import setting

    setting(name)
    value = options.policies().read(name)
    if json:
        output.as_json({name: value})
    else:
        click.echo(_shown(value))


@config.command(
    "set",
    stopped=RESUMES,
    creates=True,
    # So that a value may be negative, and is refused with a sentence about values.
    context_settings={"ignore_unknown_options": True},
)
@click.argument("name")
@click.argument("value")
@pass_table_options
def set_(options: TableOptions, name: str, value: str, json: bool) -> None:
    """Change one setting.

    A change of trace_retention_days also applies to existing traces, as with `ttl set`.
    """
    from mlflow_dynamodbstore.shared.policies import PRIMARY_METRIC, TRACE_RETENTION
    from mlflow_dynamodbstore.upkeep.settings import setting

    if name.startswith("-"):
        raise click.NoSuchOption(name)
    chosen = setting(name)
    try:
        read = chosen.read(value)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    policies = options.policies(may_create=True)
    renewed = None
    if name == TRACE_RETENTION:
        renewed = change_trace_retention(options, policies, int(read), wait=True, json=json)
    else:
        policies.set(name, read)
    if json:
        output.as_json({name: read})
        return
    output.say(f"{name} = [bold]{output.escape(_shown(read)) or 'none'}[/]")
    if renewed is not None:
        say_renewed(renewed)
    if name == PRIMARY_METRIC and read:
        output.say("Run `primary-metric backfill` to order the index by it.")


def _meaning(name: str) -> str:
    from mlflow_dynamodbstore.upkeep.settings import SETTINGS

    return SETTINGS[name].meaning if name in SETTINGS else "unknown to this release"


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json_format.dumps(value, sort_keys=True)
