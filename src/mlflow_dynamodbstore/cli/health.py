"""``doctor`` and ``stats``: the health of a table, and what it holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import MLFLOW, Command, Number
from mlflow_dynamodbstore.cli.exits import FINDINGS
from mlflow_dynamodbstore.cli.output import escape
from mlflow_dynamodbstore.cli.table_options import TableOptions, pass_table_options
from mlflow_dynamodbstore.upkeep.prices import PRICE_PER_GB, in_dollars

if TYPE_CHECKING:
    from mlflow_dynamodbstore.table.table import Table
    from mlflow_dynamodbstore.upkeep.doctor import Level
    from mlflow_dynamodbstore.upkeep.hot_volumes import HotVolume
    from mlflow_dynamodbstore.upkeep.table_stats import TableStats


LARGEST_EXPERIMENTS = 10
HOTTEST_VOLUMES = 10


@click.command(cls=Command, loads=MLFLOW)
@click.option("--quick", is_flag=True, help="Skip the checks that read the whole table.")
@pass_table_options
@click.pass_context
def doctor(ctx: click.Context, options: TableOptions, quick: bool, json: bool) -> None:
    """Check the table and the connection: permissions, schema, expiry, clock, sizes, orphans.

    Exits with code 6 if something needs attention.
    """
    from mlflow_dynamodbstore.upkeep.doctor import Doctor

    table = options.table()
    with output.bar("examining", quiet=json) as shown:
        examined = Doctor(
            table,
            segments=options.segments(),
            progress=lambda stats: output.note(shown, f"{stats.total.items:,} items read"),
        )
        findings = list(examined.examine(deep=not quick))
    told = [{"check": f.check, "level": f.level.value, "text": f.text} for f in findings]
    _note(table, examined.stats, told if not quick else None)
    if json:
        output.as_json(told)
    else:
        rows = [(f.check, _level(f.level), escape(f.text)) for f in findings]
        output.grid("Doctor", ("check", "result", "finding"), rows)
    if any(finding.needs_attention for finding in findings):
        ctx.exit(FINDINGS)


@click.command(cls=Command, loads=MLFLOW)
@click.option(
    "--price-per-gb",
    type=Number(min=0),
    default=PRICE_PER_GB,
    show_default=True,
    help="Dollars per GB and month of storage.",
)
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the operator's page to a file.",
)
@pass_table_options
def stats(options: TableOptions, price_per_gb: float, html: Path | None, json: bool) -> None:
    """Count items and bytes by kind, and show what storing them costs a month.

    Reads the whole table, and keeps the sums in it for the operator's page. Also shows which
    volumes of experiments are busy, if a server runs on this machine.
    """
    from mlflow_dynamodbstore.shared.counter_files import counters_on_this_machine
    from mlflow_dynamodbstore.table.heat import table_name
    from mlflow_dynamodbstore.upkeep.hot_volumes import hot_volumes
    from mlflow_dynamodbstore.upkeep.segmented_scan import SegmentedScan
    from mlflow_dynamodbstore.upkeep.table_stats import TableStats

    table = options.table()
    counted = TableStats(table.schema, table.clock())
    with output.bar("counting", quiet=json) as shown:
        scan = SegmentedScan.start(table, options.segments())
        while not scan.is_done:
            counted.add(scan.next_items())
            output.note(shown, f"{counted.total.items:,} items read")
    _note(table, counted, None)
    servers = counters_on_this_machine(table_name(table.engine.uri))
    if html is not None:
        from mlflow_dynamodbstore.upkeep.operator_page import operator_page

        html.write_text(operator_page(table, servers if servers.processes else None), "utf-8")
    hot = hot_volumes(servers, table)
    if json:
        by_kind = {
            kind: {**asdict(amount), "monthly_dollars": amount.monthly(price_per_gb)}
            for kind, amount in counted.by_kind.items()
        }
        output.as_json(
            {
                "entities": by_kind,
                "total": asdict(counted.total),
                "experiments": counted.by_experiment(),
                "heat": [volume.to_value(counted.names) for volume in hot],
            }
        )
    else:
        _show(counted, price_per_gb)
        _show_heat(hot, counted.names)


def _note(table: Table, counted: TableStats | None, findings: list[dict[str, str]] | None) -> None:
    """Keep what was found in the table, for the operator's page, where that is allowed."""
    from mlflow_dynamodbstore.table.errors import AccessDenied
    from mlflow_dynamodbstore.upkeep.surveys import Survey, Surveys

    surveys = Surveys(table)
    try:
        if counted is not None:
            surveys.note(Survey.of(counted))
        if findings is not None:
            surveys.note_health(findings, deep=True)
    except AccessDenied:
        output.warn("The credentials do not allow writing: the operator's page does not change.")


def _show(counted: TableStats, price_per_gb: float) -> None:
    from mlflow_dynamodbstore.upkeep.table_stats import COLLECTION_LIMIT, readable

    ranked = sorted(counted.by_kind.items(), key=lambda one: -one[1].bytes - one[1].index_bytes)
    rows = [
        (
            kind,
            amount.items,
            amount.expiring,
            readable(amount.bytes),
            readable(amount.index_bytes),
            in_dollars(amount.monthly(price_per_gb)),
        )
        for kind, amount in [*ranked, ("total", counted.total)]
    ]
    columns = ("kind", "items", "expiring", "table", "indexes", "a month")
    output.grid("Contents", columns, rows, numbers=columns[1:])
    experiments = list(counted.by_experiment().items())[:LARGEST_EXPERIMENTS]
    if experiments:
        shares = [
            (number, len(sizes), readable(sum(sizes)), f"{max(sizes) / COLLECTION_LIMIT:.1%}")
            for number, sizes in experiments
        ]
        facts = ("experiment", "volumes", "with local indexes", "fullest volume")
        output.grid("Largest experiments", facts, shares, numbers=facts[1:])


def _show_heat(hot: list[HotVolume], names: Mapping[str, str]) -> None:
    from mlflow_dynamodbstore.upkeep.hot_volumes import NOTHING_COUNTED

    if not hot:
        output.say(f"Heat: {NOTHING_COUNTED}.")
        return
    rows = [
        (
            escape(names.get(one.volume.experiment_id, "?")),
            one.volume.experiment_id,
            one.volume.number,
            *(round(amount) for amount in one.heat),
            f"{one.share:.1%}",
        )
        for one in hot[:HOTTEST_VOLUMES]
    ]
    facts = ("experiment", "id", "volume", "requests", "read units", "write units", "throttled")
    columns = (*facts, "busiest 5 minutes")
    output.grid("Busiest volumes in the last hour", columns, rows, numbers=columns[1:])


def _level(level: Level) -> str:
    from mlflow_dynamodbstore.upkeep.doctor import Level

    colours = {Level.OK: "green", Level.NOTE: "cyan", Level.WARNING: "yellow", Level.FAILURE: "red"}
    return f"[{colours[level]}]{level.value}[/]"
