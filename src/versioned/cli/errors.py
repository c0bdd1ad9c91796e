"""Errors as one sentence and an exit code."""

from __future__ import annotations

import json
import sys
from typing import Any, NoReturn

import click

from versioned.cli.context import Found, resolved
from versioned.errors import (
    Conflict,
    Corrupt,
    InvalidInput,
    LocationMissing,
    NotFound,
    Unusable,
    VersionedError,
)

NOTHING_THERE = 3
INTERRUPTED = 130
EXIT_CODES: tuple[tuple[int, type[VersionedError], str], ...] = (
    (1, VersionedError, "anything else"),
    (2, InvalidInput, "the command or an argument is wrong"),
    (NOTHING_THERE, NotFound, "there is no such artifact, version, alias, revision or table"),
    (4, Conflict, "it is protected, or somebody else has changed it"),
    (5, Corrupt, "stored content is damaged or missing"),
    (6, Unusable, "the table or the storage cannot be used"),
)


def exit_code(error: VersionedError) -> int:
    """The code for an error: that of its most particular class."""
    if isinstance(error, LocationMissing):
        return NOTHING_THERE
    return next(code for code, kind, _ in reversed(EXIT_CODES) if isinstance(error, kind))


class TellingGroup(click.Group):
    """A group of commands whose errors are told in one sentence, or as JSON where asked."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except VersionedError as error:
            _tell(error)
        except KeyboardInterrupt:
            click.echo(
                "Stopped. Nothing is half done: run the same command again to continue.", err=True
            )
            sys.exit(INTERRUPTED)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Found:
        """Find a command; for one that does not exist, say what to write instead."""
        return resolved(super().resolve_command, self, ctx, args)


def _tell(error: VersionedError) -> NoReturn:
    code = exit_code(error)
    context = click.get_current_context()
    if context.obj is not None and context.obj.as_json:
        told = {"error": type(error).__name__, "message": str(error), "exit_code": code}
        click.echo(json.dumps(told, ensure_ascii=False), err=True)
    else:
        click.echo(f"Error: {error}", err=True)
    sys.exit(code)
