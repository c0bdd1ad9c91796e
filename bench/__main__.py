"""Run the benchmarks, print their tables, and keep them as JSON and Markdown."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from bench import contract, report


@click.command()
@click.option("--seconds", default=0.5, show_default=True, help="Time for each operation.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("bench-out"),
    show_default=True,
    help="Folder for the results.",
)
@click.option(
    "--disk",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    show_default=True,
    help="Folder on the disk to measure.",
)
def main(seconds: float, out: Path, disk: Path) -> None:
    """Measure the contract's operations per second on every engine, side by side."""
    console = Console()
    results = contract.run(seconds, disk, say=console.print)
    report.show(console, results)
    for written in report.keep(out, results):
        console.print(f"written: {written}")


main()
