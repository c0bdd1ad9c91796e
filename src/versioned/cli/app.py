"""The command itself: where the repository is, which verbs there are, what exit codes mean."""

from __future__ import annotations

from typing import Any

import click

from versioned.cli import aliases, content, upkeep, versions
from versioned.cli.context import Settings, help_text
from versioned.cli.errors import EXIT_CODES, TellingGroup

_EPILOG = "\n".join(
    ["\b", "Exit codes:", "  0  done", *(f"  {code}  {what}" for code, _, what in EXIT_CODES)]
)


@click.group(cls=TellingGroup, epilog=_EPILOG, context_settings={"max_content_width": 100})
@click.option(
    "--table",
    envvar="VERSIONED_TABLE",
    show_envvar=True,
    help="Table: dynamodb://us-east-1/artifacts, dynamodb://localhost:8000/artifacts "
    "or dynamodb:///artifacts.ddb (a file).",
)
@click.option(
    "--storage",
    envvar="VERSIONED_STORAGE",
    show_envvar=True,
    help="Storage: s3://bucket/prefix, or a folder (file:///folder, or its path).",
)
@click.option(
    "--namespace",
    envvar="VERSIONED_NAMESPACE",
    show_envvar=True,
    help="Keeps repositories apart that share table and storage.",
)
@click.option(
    "--actor",
    envvar="VERSIONED_ACTOR",
    show_envvar=True,
    help="Who is recorded with changes. Default: the user of this process.",
)
@click.version_option(package_name="mlflow-dynamodbstore", prog_name="versioned")
@click.pass_context
def main(ctx: click.Context, /, **settings: Any) -> None:
    """Versioned artifacts with aliases, canary traffic and rollback.

    A version is written as my-app/3, what an alias points at as my-app@prod, and what was put last
    as my-app.

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
