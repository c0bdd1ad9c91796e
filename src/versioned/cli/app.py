"""The command itself: where the repository is, which verbs there are, what exit codes mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from mlflow_dynamodbstore import __version__
from versioned.cli import aliases, content, upkeep, versions
from versioned.cli.context import WHERE, Settings, help_text
from versioned.cli.errors import EXIT_CODES, INTERRUPTED, TellingGroup

F = TypeVar("F", bound=Callable[..., Any])

_CONTEXT = {"max_content_width": 100, "help_option_names": ["-h", "--help"]}
_EPILOG = "\n".join(
    [
        "\b",
        "Exit codes:",
        "    0  done",
        *(f"    {code}  {what}" for code, _, what in EXIT_CODES),
        f"  {INTERRUPTED}  stopped with Ctrl-C",
    ]
)


def _from(name: str, variable: str) -> Callable[[F], F]:
    """An option that says where the repository is; a variable may say so in its place."""
    return click.option(f"--{name}", envvar=variable, show_envvar=True, help=WHERE[name])


@click.group(cls=TellingGroup, epilog=_EPILOG, context_settings=_CONTEXT)
@_from("table", "VERSIONED_TABLE")
@_from("storage", "VERSIONED_STORAGE")
@_from("namespace", "VERSIONED_NAMESPACE")
@_from("actor", "VERSIONED_ACTOR")
@click.version_option(__version__, prog_name="versioned")
@click.pass_context
def main(ctx: click.Context, /, **settings: Any) -> None:
    """Versioned artifacts with aliases, canary traffic and rollback.

    Write a version as my-app/3, the version of an alias as my-app@prod, and what was put last as
    my-app. The options below may stand before or after the command.

    Example:
      export VERSIONED_TABLE=dynamodb:///artifacts.ddb
      export VERSIONED_STORAGE=./artifacts
      versioned publish my-app build/my-app.zip
      versioned alias put my-app prod 1
      versioned get my-app@prod --to my-app.zip
    """
    ctx.obj = Settings(**settings)


for _command in (*content.COMMANDS, *versions.COMMANDS, aliases.alias, *upkeep.COMMANDS):
    main.add_command(_command)
main.help = help_text(main.callback) if main.callback else None
