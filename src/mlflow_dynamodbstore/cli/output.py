"""What commands print: tables with colour for people, JSON for programs, bars for long work."""

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
    """Where people look. Made for each use, so that it follows redirected streams."""
    return Console(stderr=stderr, highlight=False)


def say(text: str) -> None:
    """A line for people, with rich's markup."""
    console().print(text)


def as_json(value: Any) -> None:
    """A value for programs."""
    click.echo(json.dumps(value, indent=2, sort_keys=True, default=_plain))


def grid(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    numbers: Sequence[str] = (),
) -> None:
    """A table; the columns named in ``numbers`` stand to the right."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for column in columns:
        side: Literal["left", "right"] = "right" if column in numbers else "left"
        table.add_column(column, justify=side, overflow="fold", no_wrap=column == columns[0])
    for row in rows:
        table.add_row(*(_shown(cell) for cell in row))
    console().print(table)


@contextmanager
def bar(description: str, *, quiet: bool) -> Iterator[Progress]:
    """A progress bar on the error stream, where it does not mix with results."""
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
    """What a progress bar says now."""
    (task,) = shown.task_ids
    shown.update(task, note=text, total=total, completed=done)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is destroyed; without a terminal only ``--yes`` will do."""
    if not yes:
        click.confirm(question, abort=True, err=True)


def _shown(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return value.hex() if isinstance(value, bytes) else str(value)
