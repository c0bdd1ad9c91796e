"""Results as a table to look at, and as files to keep."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.contract import Figure
from bench.numbers import shown


def show(console: Console, figures: Sequence[Figure]) -> None:
    """Print one row an operation, one column an engine."""
    names = engines(figures)
    table = Table("operation", title="operations per second (median)")
    for name in names:
        table.add_column(name, justify="right")
    for operation, cells in rows(figures):
        table.add_row(operation, *cells)
    console.print(table)


def keep(folder: Path, figures: Sequence[Figure]) -> list[Path]:
    """Write the figures as JSON and as a Markdown table; gives the files."""
    folder.mkdir(parents=True, exist_ok=True)
    as_json, as_markdown = folder / "contract.json", folder / "contract.md"
    content = {"machine": machine(), "figures": [asdict(figure) for figure in figures]}
    as_json.write_text(json.dumps(content, indent=2) + "\n")
    as_markdown.write_text(markdown(figures))
    return [as_json, as_markdown]


def markdown(figures: Sequence[Figure]) -> str:
    """The table as Markdown, with the machine it was measured on."""
    names = engines(figures)
    lines = [
        f"Operations per second, with the median of one call; measured on {machine()}.",
        "",
        f"| operation | {' | '.join(names)} |",
        f"| --- |{' ---: |' * len(names)}",
    ]
    lines += [f"| {operation} | {' | '.join(cells)} |" for operation, cells in rows(figures)]
    return "\n".join(lines) + "\n"


def engines(figures: Sequence[Figure]) -> list[str]:
    return list(dict.fromkeys(figure.engine for figure in figures))


def rows(figures: Sequence[Figure]) -> Iterator[tuple[str, list[str]]]:
    """Each operation with its figure on every engine, in the engines' order."""
    found = {(figure.operation, figure.engine): figure for figure in figures}
    for operation in dict.fromkeys(figure.operation for figure in figures):
        yield operation, [cell(found[operation, name]) for name in engines(figures)]


def cell(figure: Figure) -> str:
    return f"{figure.per_second:,.0f} ({shown(figure.median_ms)} ms)"


def machine() -> str:
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, boto3 {version('boto3')}"
    )
