"""Tables for people, JSON for programs, bars for transfers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from versioned.cli.context import Settings

if TYPE_CHECKING:
    from versioned.aliases import AliasChange
    from versioned.content import Progress as Told
    from versioned.listing import Page
    from versioned.rows import Alias, Artifact

T = TypeVar("T")
SHORT_DIGEST = 12


def artifact_json(row: Artifact) -> dict[str, Any]:
    """All that is known about a version."""
    return {
        **row.to_dict(),
        "size": row.size,
        "filename": row.filename,
        "is_folder": row.is_folder,
        "is_deleted": row.is_deleted,
        "metadata": row.metadata,
        "by": row.by,
    }


def alias_json(row: Alias) -> dict[str, Any]:
    """All that is known about an alias."""
    return {**row.to_dict(), "revision": row.revision, "by": row.by, "reason": row.reason}


def change_json(change: AliasChange) -> dict[str, Any]:
    """One change of an alias."""
    return asdict(change)


def print_json(value: object) -> None:
    """Print JSON; times are ISO 8601."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=_time))


def print_one(settings: Settings, told: dict[str, Any]) -> None:
    """Print a thing: as JSON, or a line for each of its fields that says something."""
    if settings.as_json:
        print_json(told)
        return
    shown = {name: value for name, value in told.items() if value not in (None, {}, False)}
    width = max(map(len, shown))
    for name, value in shown.items():
        click.echo(f"{name:<{width}}  {_text(value)}")


def print_page(
    settings: Settings,
    page: Page[T],
    to_json: Callable[[T], object],
    columns: dict[str, Callable[[T], object]],
) -> None:
    """Print a page: as JSON with its cursor, or a table and how to go on."""
    if settings.as_json:
        print_json({"items": [to_json(one) for one in page], "cursor": page.cursor})
        return
    rows = [[_text(column(one)) for column in columns.values()] for one in page]
    print_table(list(columns), rows)
    if page.cursor is not None:
        click.echo(f"There is more: --cursor {page.cursor}", err=True)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; where nobody looks at it, it is as wide as it needs to be."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console = Console(highlight=False, markup=False, width=400)
    with console.capture() as captured:
        console.print(table)
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))


@contextmanager
def transfer(settings: Settings, what: str, size: int | None) -> Iterator[Told]:
    """A bar that moves with the bytes, for those who watch."""
    from versioned.content import no_progress

    if settings.as_json or not sys.stderr.isatty():
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=size)
        yield lambda moved: progress.advance(task, moved)


@contextmanager
def spinner(settings: Settings, what: str) -> Iterator[None]:
    """Show on a terminal that something takes long and has no measure."""
    if settings.as_json or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True, highlight=False).status(f"{what} …"):
        yield


def human_size(size: int | None) -> str:
    """A number of bytes as people say it."""
    amount = float(size or 0)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, dict):
        return ", ".join(f"{name}={text}" for name, text in value.items())
    return str(value)


def _time(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(type(value).__name__)
