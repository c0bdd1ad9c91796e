"""What all commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from mlflow_dynamodbstore.cli.exits import reporting

F = TypeVar("F", bound=Callable[..., Any])


class Command(click.Command):
    """A command that takes ``--json``, and fails with a sentence and an exit code."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.params.append(
            click.Option(["--json", "json"], is_flag=True, help="Print JSON, for programs.")
        )

    def invoke(self, ctx: click.Context) -> Any:
        return reporting(super().invoke)(ctx)


class Group(click.Group):
    """A group of such commands."""

    command_class = Command
    group_class = type


yes_option: Callable[[F], F] = click.option(
    "--yes", is_flag=True, help="Do not ask for confirmation."
)
