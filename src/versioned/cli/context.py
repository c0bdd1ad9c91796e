"""What all commands share: the settings, the repository, and options that several take."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from versioned.errors import InvalidInput

if TYPE_CHECKING:
    from versioned.repository import Repository

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_LIMIT = 100
"""As in ``versioned.listing``, which imports boto3; a test compares them."""

WHERE = {
    "table": "Table: dynamodb://us-east-1/artifacts, dynamodb://localhost:8000/artifacts "
    "or dynamodb:///artifacts.ddb (a file).",
    "storage": "Storage: s3://bucket/prefix, or a folder (file:///folder, or its path).",
    "namespace": "Keeps repositories apart that share table and storage.",
    "actor": "Who is recorded with changes. [default: the user of this process]",
}
"""The options that say where the repository is, and who works on it."""


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
                f"{missing} is missing; for example: "
                "versioned --table dynamodb:///artifacts.ddb --storage ./artifacts names"
            )
        from versioned.cli.output import spinner

        with spinner(self, "opening the repository"):
            from versioned.repository import Repository

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


def _where_option(name: str, *, hidden: bool) -> click.Option:
    """An option of ``WHERE``, for a group or a command below the root."""

    def take(ctx: click.Context, _parameter: click.Parameter, value: str | None) -> None:
        settings = ctx.find_object(Settings)
        if value is not None and settings is not None:
            setattr(settings, name, value)

    return click.Option(
        [f"--{name}", f"where_{name}"],
        help=WHERE[name],
        hidden=hidden,
        expose_value=False,
        callback=take,
    )


Found: TypeAlias = "tuple[str | None, click.Command | None, list[str]]"


class Command(click.Command):
    """A command that also takes the options of ``WHERE``."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.params.extend(_where_option(name, hidden=True) for name in WHERE)

    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002 - never cut
        """The first sentence of the help, whole."""
        return first_sentence(self.help)


class Group(click.Group):
    """A group of such commands."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.params.extend(_where_option(name, hidden=True) for name in WHERE)

    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002 - never cut
        """The first sentence of the help, whole."""
        return first_sentence(self.help)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Found:
        """Find a command; for one that does not exist, say what to write instead."""
        return resolved(super().resolve_command, self, ctx, args)


def resolved(
    resolve: Callable[[click.Context, list[str]], Found],
    group: click.Group,
    ctx: click.Context,
    args: list[str],
) -> Found:
    """The command that the arguments name. Raises ``UsageError`` with what to write instead."""
    try:
        return resolve(ctx, args)
    except click.UsageError as error:
        wanted, known = args[0], group.list_commands(ctx)
        near = [name for name in SYNONYMS.get(wanted, ()) if name.split()[0] in known]
        near = near or difflib.get_close_matches(wanted, known, cutoff=0.7)
        said = f"there is no command {wanted!r}"
        if near:
            said = f"{said}; did you mean {' or '.join(f'`{name}`' for name in near)}?"
        else:
            said = f"{said}; the commands are: {', '.join(known)}"
        raise click.UsageError(said, ctx) from error


SYNONYMS = {
    "list": ("names", "versions"),
    "ls": ("names", "versions"),
    "info": ("show",),
    "describe": ("show",),
    "upload": ("put", "publish"),
    "push": ("put", "publish"),
    "add": ("put", "publish"),
    "create": ("publish", "init"),
    "set": ("put", "alias put"),
    "download": ("get",),
    "pull": ("get",),
    "fetch": ("get",),
    "rm": ("delete",),
    "remove": ("delete",),
    "restore": ("undelete",),
    "aliases": ("alias list",),
    "canary": ("alias canary",),
    "promote": ("alias promote",),
    "abort": ("alias abort",),
    "rollback": ("alias rollback",),
    "history": ("alias history",),
}
"""Words of other programs, and the commands here that do the same."""


def first_sentence(text: str | None) -> str:
    """The first sentence of a help text, without its full stop."""
    paragraph = inspect.cleandoc(text or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).partition(". ")[0].rstrip(".")


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
    return click.command(name, cls=Command, help=help_text(function))(click.pass_obj(with_json))


def paged(function: F) -> F:
    """Options of a command that lists."""
    for option in (
        click.option("--cursor", help="Continue after the page that printed this cursor."),
        click.option(
            "--limit", default=DEFAULT_LIMIT, show_default=True, help="Entries on a page."
        ),
    ):
        function = option(function)
    return function


def recorded(function: F) -> F:
    """Options of a command that changes an alias."""
    for option in (
        click.option("--reason", help="Reason, for the history."),
        click.option("--by", help="Name, for the history. [default: --actor]"),
        click.option(
            "--expected-revision",
            type=int,
            help="Change the alias only if it is still at this revision; 0: if it does not exist.",
        ),
    ):
        function = option(function)
    return function
