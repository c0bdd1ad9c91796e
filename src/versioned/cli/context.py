"""What all commands share: the settings, the repository, and options that several take."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from versioned.errors import InvalidInput
from versioned.listing import DEFAULT_LIMIT
from versioned.repository import Repository

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Settings:
    """Where the repository is, and how to speak about it."""

    table: str | None
    storage: str | None
    namespace: str | None
    actor: str | None
    as_json: bool = False

    def repository(self, *, create: bool | None = False) -> Repository:
        """The repository that the options name. Raises ``InvalidInput`` when they do not.

        Only ``init``, and commands that store content, create an absent table.
        """
        if not self.table or not self.storage:
            missing = "--table (or VERSIONED_TABLE)"
            if self.table:
                missing = "--storage (or VERSIONED_STORAGE)"
            raise InvalidInput(
                f"{missing} is missing: write for example "
                "versioned --table dynamodb:///artifacts.ddb --storage ./artifacts names"
            )
        return Repository(
            self.table,
            self.storage,
            namespace=self.namespace,
            actor=self.actor,
            create=create,
        )


def help_text(function: Callable[..., Any]) -> str:
    """The docstring, with the lines of its examples left as they are."""
    return re.sub(r"^(Examples?:)$", "\b\n\\1", inspect.getdoc(function) or "", flags=re.MULTILINE)


def _json_callback(ctx: click.Context, _parameter: click.Parameter, as_json: bool) -> None:
    settings = ctx.find_object(Settings)
    if settings is not None:
        settings.as_json = as_json


def command(function: F) -> click.Command:
    """A command that takes ``--json`` and is handed the settings."""
    with_json = click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        # Read first, so that errors in other arguments are told as JSON, too.
        is_eager=True,
        callback=_json_callback,
        help="Print JSON.",
    )(function)
    name = function.__name__.removesuffix("_").replace("_", "-")
    return click.command(name, help=help_text(function))(click.pass_obj(with_json))


def paged(function: F) -> F:
    """Options of a command that lists."""
    for option in (
        click.option("--cursor", help="Go on after the page that gave this cursor."),
        click.option("--limit", default=DEFAULT_LIMIT, show_default=True, help="Lines of a page."),
    ):
        function = option(function)
    return function


def recorded(function: F) -> F:
    """Options of a command that changes an alias."""
    for option in (
        click.option("--reason", help="Why, for the history."),
        click.option("--by", help="Who, for the history. Default: --actor."),
        click.option(
            "--expected-revision",
            type=int,
            help="Change it only if it still is at this revision (0: it must not exist).",
        ),
    ):
        function = option(function)
    return function
