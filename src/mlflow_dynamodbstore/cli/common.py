"""What all commands share: ``--json``, the options that name a table, and how a command ends.

The modules of commands declare options and print results. A command imports what it runs when it
is called: ``--help``, completion and wrong options must not wait seconds for MLflow.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.exits import reporting
from mlflow_dynamodbstore.cli.table_options import TABLE_OPTIONS, TableOptions, table_option

F = TypeVar("F", bound=Callable[..., Any])

MLFLOW = "mlflow_dynamodbstore.tracking.store"
"""The module that brings in most of MLflow, which takes seconds to import."""

UNCHANGED = "Stopped. Nothing was changed."
RESUMES = "Stopped. What is done is kept; run the same command again to continue."


class WholeNumber(click.IntRange):
    """A whole number within bounds; help and errors call it a number."""

    name = "number"


class Number(click.FloatRange):
    """A number within bounds; help and errors call it a number."""

    name = "number"


class Command(click.Command):
    """A command that takes ``--json`` and the table's options, and fails with a code.

    ``loads`` is the module that takes long to import, and is imported under a spinner;
    ``stopped`` is what Ctrl-C prints: what was changed, and how to continue; ``creates`` tells
    that the command creates a missing file; ``needs_table`` that it works on a table at all.
    """

    def __init__(
        self,
        *args: Any,
        loads: str | None = None,
        stopped: str = UNCHANGED,
        creates: bool = False,
        needs_table: bool = True,
        **kwargs: Any,
    ):
        super().__init__(*args, **kwargs)
        self.needs_table = needs_table
        self.creates = creates
        self.loads = loads
        self.stopped = stopped
        self.params.append(
            click.Option(["--json", "json"], is_flag=True, help="Print JSON, for programs.")
        )
        self.params.extend(table_option(*option) for option in TABLE_OPTIONS)

    def invoke(self, ctx: click.Context) -> Any:
        return reporting(self._run, self.stopped)(ctx)

    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002 - never cut
        """The first sentence of the help, whole."""
        return first_sentence(self.help)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the options of the command, and below them those that name the table."""
        options = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        own = [p for p in options if not (p.name or "").startswith(_PREFIX)]
        table = [p for p in options if (p.name or "").startswith(_PREFIX)]
        for title, listed in (("Options", own), ("Table", table)):
            records = [record for p in listed if (record := p.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def _run(self, ctx: click.Context) -> Any:
        options = ctx.find_object(TableOptions)
        assert options is not None
        if self.needs_table:
            options.check(creates=self.creates)  # before anything takes long
        if self.loads is not None:
            with output.spinner("loading MLflow"):
                importlib.import_module(self.loads)
        return super().invoke(ctx)


class Group(click.Group):
    """A group of such commands. The table's options may also stand between group and command."""

    command_class = Command
    is_root = False

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        if not self.is_root:
            self.params.extend(table_option(*option, hidden=True) for option in TABLE_OPTIONS)

    def get_short_help_str(self, limit: int = 0) -> str:  # noqa: ARG002 - never cut
        """The first sentence of the help, whole."""
        return first_sentence(self.help)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; for one that does not exist, name those of other groups, too."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(_no_such_command(ctx, self, args[0]), ctx) from error


class Root(Group):
    """The program itself, which declares the table's options."""

    is_root = True
    group_class = Group


def _no_such_command(ctx: click.Context, group: click.Group, wanted: str) -> str:
    """What to write instead of a command that does not exist."""
    import difflib

    if wanted == "help":
        return "there is no command 'help'; did you mean `--help`?"
    near = difflib.get_close_matches(wanted, group.list_commands(ctx), cutoff=0.7)
    elsewhere = [
        f"{name} {wanted}"
        for name, other in sorted(group.commands.items())
        if isinstance(other, click.Group) and wanted in other.commands
    ]
    found = near or elsewhere
    said = f"there is no command {wanted!r}"
    if found:
        return f"{said}; did you mean {' or '.join(f'`{one}`' for one in found)}?"
    return f"{said}; the commands are: {', '.join(group.list_commands(ctx))}"


def first_sentence(text: str | None) -> str:
    """The first sentence of a help text, without its full stop."""
    paragraph = inspect.cleandoc(text or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).partition(". ")[0].rstrip(".")


_PREFIX = "table_"

yes_option: Callable[[F], F] = click.option(
    "--yes", is_flag=True, help="Do not ask for confirmation."
)
