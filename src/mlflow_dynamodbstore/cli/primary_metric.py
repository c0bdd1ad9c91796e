"""``primary-metric``: the metric that LSI5 orders runs by."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import MLFLOW, RESUMES, Group
from mlflow_dynamodbstore.cli.table_options import TableOptions, pass_table_options

if TYPE_CHECKING:
    from rich.progress import Progress

    from mlflow_dynamodbstore.upkeep.backfill import BackfillProgress


@click.group(cls=Group)
def primary_metric() -> None:
    """Give one metric its own index; `config set primary_metric` chooses it."""


@primary_metric.command(loads=MLFLOW)
@pass_table_options
def show(options: TableOptions, json: bool) -> None:
    """Show the wanted metric, the metric of the index, and whether searches use it."""
    from mlflow_dynamodbstore.upkeep.primary_metric import PrimaryMetric

    primary = PrimaryMetric(options.table())
    wanted, index = primary.wanted(), primary.index() or {}
    metric, complete = index.get("metric"), bool(index.get("complete"))
    if json:
        output.as_json({"wanted": wanted, "indexed": metric, "complete": complete})
        return
    rows = [
        ("wanted", wanted or "none"),
        ("indexed", metric or "none"),
        ("state", _state(wanted, metric, complete=complete)),
    ]
    output.grid("Primary metric", ("", "value"), rows)


@primary_metric.command(loads=MLFLOW, stopped=RESUMES)
@pass_table_options
def backfill(options: TableOptions, json: bool) -> None:
    """Order the index by the wanted metric, and let searches use it.

    It first waits a minute or two, until every process knows the new metric. After Ctrl-C, run the
    same command again to resume.
    """
    from mlflow_dynamodbstore.upkeep.primary_metric import PrimaryMetric

    with output.bar("ordering runs", quiet=json) as shown:
        primary = PrimaryMetric(options.table(), progress=lambda done: _note(shown, done))
        done = primary.backfill()
    wanted = primary.wanted()
    if json:
        output.as_json({"indexed": wanted, **asdict(done)})
    elif wanted is None:
        output.say("No primary metric is set; searches by a metric read RANK items.")
    else:
        output.say(f"The index of {wanted} is complete: {done.entries:,} runs moved.")


def _state(wanted: str | None, metric: str | None, *, complete: bool) -> str:
    if wanted == metric:
        return "[green]complete[/]" if complete or wanted is None else _WAITS
    return _WAITS


_WAITS = "[yellow]waits for `primary-metric backfill`[/]"


def _note(shown: Progress, done: BackfillProgress) -> None:
    if done.waiting:
        output.note(shown, f"continues in {done.waiting:.0f} s, when all processes know the metric")
    else:
        output.note(shown, f"{done.entries:,} runs", done.places, done.places_in_all)
