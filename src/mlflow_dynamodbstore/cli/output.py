"""What commands print: tables for people, JSON for programs, and progress.

Rich is imported when something is printed with it, so that help and errors do not wait for it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


def console(*, stderr: bool = False) -> Console:
    """A console on the current output stream, which may be redirected between uses."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def escape(text: str) -> str:
    """Text without meaning as markup, for ``say`` and ``grid``."""
    from rich.markup import escape as escape_markup

    return escape_markup(text)


def say(text: str) -> None:
    """Print a line for people, with rich's markup."""
    console().print(text)


def warn(text: str) -> None:
    """Print a line for people on the error stream, with rich's markup."""
    console(stderr=True).print(text)


def as_json(value: Any) -> None:
    """Print a value for programs."""
    click.echo(json.dumps(value, indent=2, sort_keys=True, default=_plain))


def grid(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    numbers: Sequence[str] = (),
) -> None:
    """Print a table; the columns named in ``numbers`` are aligned to the right."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for column in columns:
        side: Literal["left", "right"] = "right" if column in numbers else "left"
        table.add_column(column, justify=side, overflow="fold", no_wrap=column == columns[0])
    for row in rows:
        table.add_row(*(_shown(cell) for cell in row))
    console().print(table)


@contextmanager
def bar(description: str, *, quiet: bool) -> Iterator[Progress]:
    """A progress bar on the error stream, apart from the results; only on a terminal."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    off = quiet or not _is_watched()
    with (
        _only_display(),
        Progress(*columns, console=console(stderr=True), transient=True, disable=off) as shown,
    ):
        shown.add_task(escape(description), total=None, note="")
        yield shown


@contextmanager
def spinner(description: str) -> Iterator[None]:
    """Show on a terminal that something takes long, unless a display shows so already."""
    if not _is_watched() or _DISPLAYS:
        yield
        return
    with _only_display(), console(stderr=True).status(f"{escape(description)} …"):
        yield


def note(shown: Progress, text: str, done: float | None = None, total: float | None = None) -> None:
    """Change the text and the state of a progress bar."""
    (task,) = shown.task_ids
    shown.update(task, note=escape(text), total=total, completed=done)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is destroyed, unless ``yes``; without a terminal, abort."""
    if yes:
        return
    try:
        click.confirm(question, abort=True, err=True)
    except click.Abort as error:
        raise click.ClickException(
            "not confirmed, so nothing was changed; --yes confirms without a question"
        ) from error


_DISPLAYS: list[None] = []
"""One entry while a bar or a spinner is on the screen: two would overwrite each other."""


@contextmanager
def _only_display() -> Iterator[None]:
    _DISPLAYS.append(None)
    try:
        yield
    finally:
        _DISPLAYS.pop()


def can_ask() -> bool:
    """Whether somebody can answer a question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _is_watched() -> bool:
    return sys.stderr.isatty()


def _shown(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return value.hex() if isinstance(value, bytes) else str(value)
