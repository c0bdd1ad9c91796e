"""What commands print: tables for people, JSON for programs, and progress bars."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table


def console(*, stderr: bool = False) -> Console:
    """A console on the current output stream, which may be redirected between uses."""
    return Console(stderr=stderr, highlight=False)


def say(text: str) -> None:
    """Print a line for people, with rich's markup."""
    console().print(text)


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
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for column in columns:
        side: Literal["left", "right"] = "right" if column in numbers else "left"
        table.add_column(column, justify=side, overflow="fold", no_wrap=column == columns[0])
    for row in rows:
        table.add_row(*(_shown(cell) for cell in row))
    console().print(table)


@contextmanager
def bar(description: str, *, quiet: bool) -> Iterator[Progress]:
    """A progress bar on the error stream, apart from the results."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console(stderr=True), transient=True, disable=quiet) as shown:
        shown.add_task(description, total=None, note="")
        yield shown


def note(shown: Progress, text: str, done: float | None = None, total: float | None = None) -> None:
    """Change the text and the state of a progress bar."""
    (task,) = shown.task_ids
    shown.update(task, note=text, total=total, completed=done)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is destroyed, unless ``yes``; without a terminal, abort."""
    if not yes:
        click.confirm(question, abort=True, err=True)


def _shown(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return value.hex() if isinstance(value, bytes) else str(value)
