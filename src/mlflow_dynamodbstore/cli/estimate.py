"""``estimate``: what a workload costs a month on DynamoDB."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import Command, Number, WholeNumber
from mlflow_dynamodbstore.upkeep.prices import PRICE_PER_GB, READ_PRICE, WRITE_PRICE, in_dollars

if TYPE_CHECKING:
    from mlflow_dynamodbstore.upkeep.cost_estimate import CostEstimate

LOADS = "mlflow_dynamodbstore.upkeep.cost_estimate"
_COUNTS = {
    "runs_a_day": "Runs that end in a day.",
    "params": "Params of a run.",
    "tags": "Tags of a run, MLflow's own included.",
    "metrics": "Metrics of a run, logged together in a call.",
    "steps": "Calls that log metrics in a run.",
    "traces_a_day": "Traces in a day.",
    "spans": "Spans of a trace.",
    "searches_a_day": "Pages of 100 runs that are listed in a day.",
    "trace_days": "Days until traces expire; 0 for never.",
    "history_days": "Days until histories of metrics expire; 0 for never.",
    "months": "Months after which storage is counted.",
}


def _options(command: Any) -> Any:
    for name, meaning in reversed(_COUNTS.items()):
        whole = name not in ("runs_a_day", "traces_a_day", "searches_a_day", "months")
        kind = WholeNumber(min=0) if whole else Number(min=0)
        command = click.option(f"--{name.replace('_', '-')}", name, type=kind, help=meaning)(
            command
        )
    return command


@click.command(cls=Command, loads=LOADS, needs_table=False)
@click.option(
    "--from", "source", metavar="URI", help="Take the numbers from this database of MLflow's."
)
@_options
def estimate(source: str | None, json: bool, **given: float | None) -> None:
    """Say what a workload costs a month on DynamoDB, with the arithmetic.

    One run, one trace and one list are done on an empty table in a temporary file and charged by
    DynamoDB's rules; the rest is multiplication. --from takes the numbers from the last 30 days of
    a database; options given beside it win.
    """
    from mlflow_dynamodbstore.upkeep.cost_estimate import Workload
    from mlflow_dynamodbstore.upkeep.cost_estimate import estimate as estimated

    numbers: dict[str, Any] = {}
    if source is not None:
        from mlflow_dynamodbstore.transfer.sql.database import Database
        from mlflow_dynamodbstore.transfer.sql.workload import workload_of

        with output.spinner("counting in the database"):
            numbers = asdict(workload_of(Database.to_read(source)))
    numbers |= {name: value for name, value in given.items() if value is not None}
    with output.spinner("measuring"):
        made = estimated(Workload(**numbers))
    if json:
        output.as_json(as_json(made))
    else:
        show(made)


def as_json(made: CostEstimate) -> dict[str, Any]:
    """An estimate for programs."""
    return {
        "workload": asdict(made.workload),
        "requests": [{**line._asdict(), "dollars": line.dollars} for line in made.requests],
        "storage": [{**one._asdict(), "gigabytes": one.gigabytes} for one in made.storage],
        "request_dollars": made.request_dollars,
        "storage_dollars": made.storage_dollars,
        "monthly_dollars": made.monthly_dollars,
    }


def show(made: CostEstimate) -> None:
    """Print an estimate with its arithmetic."""
    rows = [
        (
            line.what,
            f"{line.times:,.0f}",
            _units(line.read_units),
            _units(line.write_units),
            in_dollars(line.dollars),
        )
        for line in made.requests
    ]
    columns = ("what", "times a month", "read units each", "write units each", "dollars")
    output.grid("Requests", columns, rows, numbers=columns[1:])
    kept = [
        (one.what, f"{one.kept:,.0f}", f"{one.bytes:,.0f}", f"{one.gigabytes:,.2f}")
        for one in made.storage
    ]
    named = ("what", "kept", "bytes each", "GB")
    output.grid(f"Storage after {made.workload.months:g} months", named, kept, named[1:])
    output.say(
        f"[bold]{in_dollars(made.monthly_dollars)} a month[/]: requests "
        f"{in_dollars(made.request_dollars)} (${READ_PRICE:g} for a million read units, "
        f"${WRITE_PRICE:g} for a million write units), storage {in_dollars(made.storage_dollars)} "
        f"(${PRICE_PER_GB:g} for a GB beyond the free 25). Servers, artifacts and backups come on "
        "top."
    )


def _units(amount: float) -> str:
    """As many digits as whoever repeats the multiplication needs."""
    return f"{amount:,.3f}".rstrip("0").rstrip(".")
