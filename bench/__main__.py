"""Run the benchmarks, print their tables, and keep them as JSON and Markdown with plots."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from bench import auth, contract, page, registry, report, traces, tracking
from bench.numbers import shown
from bench.stores import DYNAMODB, all_benches

QUICK_SIZES = (500, 2_000)
FULL_SIZES = (500, 2_000, 8_000, 50_000)
# The size of the experiment that the targets of searches are for.
STATED_SIZES = (2_000, 8_000)
Say = Callable[[str], None]


@click.command()
@click.option("--full", is_flag=True, help="PostgreSQL too, and up to 50,000 runs.")
@click.option("--sizes", help="Runs in the growing experiment, for example 500,2000.")
@click.option("--seconds", default=0.25, show_default=True, help="Time for each table operation.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("bench-out"),
    show_default=True,
    help="Folder for the results.",
)
@click.option(
    "--docs",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the page and its plots; the results' folder unless given.",
)
@click.option(
    "--disk",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    show_default=True,
    help="Folder on the disk to measure.",
)
def main(
    full: bool, sizes: str | None, seconds: float, out: Path, docs: Path | None, disk: Path
) -> None:
    """Measure the table's engines, then MLflow's SQL store and ours, side by side."""
    console = Console(width=140)
    chosen: tuple[int, ...] = FULL_SIZES if full else QUICK_SIZES
    if sizes:
        chosen = tuple(int(size) for size in sizes.split(","))
    command = "make bench-full" if full else "make bench"
    results = page.Results(command + (f' SIZES="{sizes}"' if sizes else ""), os.getloadavg()[0])
    results.contract = contract.run(seconds, disk, say=console.print)
    report.show(console, results.contract)
    measure_stores(results, chosen, console.print, postgres=full)
    console.print(times(results.operations))
    results.checked = auth.run(console.print)
    for one in results.checked:
        console.print(one)
    out.mkdir(parents=True, exist_ok=True)
    as_json = out / "results.json"
    as_json.write_text(json.dumps({"machine": report.machine(), **asdict(results)}, indent=2))
    for written in [
        as_json,
        *report.keep(out, results.contract),
        *page.write(docs or out, results),
    ]:
        console.print(f"written: {written}")


def measure_stores(
    results: page.Results, sizes: tuple[int, ...], say: Say, *, postgres: bool
) -> None:
    """Every operation of the stores, and the searches once for each size."""
    operations, growth = {}, {}
    with all_benches(say, postgres=postgres) as benches:
        say("measuring tracking, the registry and traces ...")
        for operation in (*tracking.OPERATIONS, *registry.OPERATIONS, *traces.OPERATIONS):
            operations[operation.title] = tracking.measure(benches, operation)
        for size in sizes:
            say(f"measuring searches of {size:,} runs ...")
            *searches, walk = tracking.search_operations(size)
            found = {one.title: tracking.measure(benches, one) for one in searches}
            growth[size] = {
                title.replace(f"of {size:,}", "").rstrip(", "): each
                for title, each in found.items()
            }
            if size in STATED_SIZES:
                operations |= found
            if size == STATED_SIZES[0]:
                operations[walk.title] = tracking.measure(benches, walk)
    results.operations, results.growth = operations, growth


def times(measured: page.Measured) -> Table:
    """A table to look at: milliseconds, the ratio, and the cost on DynamoDB."""
    names = list(next(iter(measured.values())))
    table = Table("one operation", title="milliseconds (median); requests / chain / RCU / WCU")
    for name in [*names, "faster", "far", "req / chain / RCU / WCU"]:
        table.add_column(name, justify="right")
    for title, costs in measured.items():
        cells = [shown(cost.milliseconds) for cost in costs.values()]
        cost = costs.get(DYNAMODB)
        units = far = ""
        if cost:
            far = f"{cost.far_milliseconds:.3g}"
            units = f"{cost.requests:g} / {cost.chain} / {cost.read_units:g} / {cost.write_units:g}"
        table.add_row(title, *cells, f"{page.faster(costs):.1f}x", far, units)
    return table


main()
