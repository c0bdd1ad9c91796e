"""``trace``: fetching the spans of traces from X-Ray."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import MLFLOW, RESUMES, Group, WholeNumber
from mlflow_dynamodbstore.cli.limits import TRACE_RETENTION, XRAY_DAYS
from mlflow_dynamodbstore.cli.table_options import TableOptions, pass_table_options

if TYPE_CHECKING:
    from mlflow_dynamodbstore.traces.xray_cache import CacheProgress


@click.group(cls=Group)
def trace() -> None:
    """Fetch the spans of traces from AWS X-Ray."""


@trace.command(loads=MLFLOW, stopped=RESUMES)
@click.option("--experiment-id", multiple=True, help="Experiment; can be repeated. [default: all]")
@click.option(
    "--days",
    type=WholeNumber(1, XRAY_DAYS),
    default=XRAY_DAYS,
    show_default=True,
    help="How many days to go back.",
)
@pass_table_options
def cache(options: TableOptions, experiment_id: tuple[str, ...], days: int, json: bool) -> None:
    """Fetch spans from X-Ray, which deletes them after 30 days, and keep them in the table.

    Needs the setting xray_region. Spans that are in the table are not fetched again.
    """
    from mlflow_dynamodbstore.shared.workspaces import all_experiments
    from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore

    upkeep = DynamoDBTrackingStore.on(options.table()).xray_spans
    if not upkeep.is_on:
        raise ValueError("X-Ray is off: set its region with `config set xray_region us-east-1`")
    with output.bar("fetching spans", quiet=json) as shown:

        def progress(done: CacheProgress) -> None:
            output.note(shown, f"{done.looked_at:,} traces, {done.cached:,} fetched")

        chosen = experiment_id or all_experiments(options.table())
        done = upkeep.fill_cache(chosen, days, progress)
    if json:
        output.as_json(asdict(done))
        return
    output.say(
        f"{done.looked_at:,} traces: {done.stored_already:,} had their spans, "
        f"[bold]{done.cached:,}[/] were fetched, {done.not_in_xray:,} are not in X-Ray."
    )
    kept = options.policies().get(TRACE_RETENTION)
    if kept:
        output.say(f"They are kept until their traces expire, {kept} days after their creation.")
