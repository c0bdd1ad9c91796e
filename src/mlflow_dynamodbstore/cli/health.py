"""``doctor`` and ``stats``: how a table stands, and what is in it."""

from __future__ import annotations

from dataclasses import asdict

import click
from rich.markup import escape

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import Command
from mlflow_dynamodbstore.cli.exits import FINDINGS
from mlflow_dynamodbstore.cli.target import Place, pass_place
from mlflow_dynamodbstore.upkeep.doctor import Doctor, Level
from mlflow_dynamodbstore.upkeep.prices import PRICE_PER_GB, in_dollars
from mlflow_dynamodbstore.upkeep.survey import Survey, readable
from mlflow_dynamodbstore.upkeep.walk import Walk

COLOURS = {
    Level.OK: "green",
    Level.NOTE: "cyan",
    Level.WARNING: "yellow",
    Level.FAILURE: "red",
}


@click.command(cls=Command)
@click.option("--quick", is_flag=True, help="Leave out the checks that read the whole table.")
@pass_place
@click.pass_context
def doctor(ctx: click.Context, place: Place, quick: bool, json: bool) -> None:
    """Check the table and the way to it: permissions, schema, expiry, clock, sizes, orphans.

    Ends with code 6 when something needs attention.
    """
    with output.bar("examining", quiet=json) as shown:
        examined = Doctor(
            place.table(),
            segments=place.segments(),
            progress=lambda survey: output.note(shown, f"{survey.total.items:,} items read"),
        )
        findings = list(examined.examine(deep=not quick))
    if json:
        output.as_json(
            [{"check": f.check, "level": f.level.value, "text": f.text} for f in findings]
        )
    else:
        rows = [(f.check, _level(f.level), escape(f.text)) for f in findings]
        output.grid("Doctor", ("check", "result", "finding"), rows)
    if any(finding.needs_attention for finding in findings):
        ctx.exit(FINDINGS)


@click.command(cls=Command)
@click.option(
    "--price-per-gb",
    type=click.FloatRange(min=0),
    default=PRICE_PER_GB,
    show_default=True,
    help="Dollars a month for a GB of storage.",
)
@pass_place
def stats(place: Place, price_per_gb: float, json: bool) -> None:
    """Count items, bytes and the monthly cost of keeping them, by kind.

    Reads the whole table.
    """
    table = place.table()
    survey = Survey(table.schema, table.clock())
    with output.bar("counting", quiet=json) as shown:
        walk = Walk.of_segments(table, place.segments())
        while not walk.is_done:
            survey.add(walk.step())
            output.note(shown, f"{survey.total.items:,} items read")
    if json:
        by_entity = {
            entity: {**asdict(amount), "monthly_dollars": amount.monthly(price_per_gb)}
            for entity, amount in survey.by_entity.items()
        }
        output.as_json({"entities": by_entity, "total": asdict(survey.total)})
    else:
        _show(survey, price_per_gb)


def _show(survey: Survey, price_per_gb: float) -> None:
    ranked = sorted(survey.by_entity.items(), key=lambda one: -one[1].bytes - one[1].index_bytes)
    rows = [
        (
            entity,
            amount.items,
            amount.expiring,
            readable(amount.bytes),
            readable(amount.index_bytes),
            in_dollars(amount.monthly(price_per_gb)),
        )
        for entity, amount in [*ranked, ("total", survey.total)]
    ]
    columns = ("kind", "items", "expiring", "table", "indexes", "a month")
    output.grid("Contents", columns, rows, numbers=columns[1:])


def _level(level: Level) -> str:
    return f"[{COLOURS[level]}]{level.value}[/]"
