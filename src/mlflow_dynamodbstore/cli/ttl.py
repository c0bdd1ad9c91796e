"""``ttl``: retention policies, and the cleanup of orphans."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import MLFLOW, RESUMES, Group, Number, WholeNumber
from mlflow_dynamodbstore.cli.limits import (
    GRACE_SECONDS,
    METRIC_HISTORY_RETENTION,
    MOST_DAYS,
    SOFT_DELETED_RETENTION,
    TRACE_RETENTION,
)
from mlflow_dynamodbstore.cli.table_options import TableOptions, pass_table_options
from mlflow_dynamodbstore.cli.trace_retention import change_trace_retention, say_renewed

if TYPE_CHECKING:
    from mlflow_dynamodbstore.shared.policies import Policies
    from mlflow_dynamodbstore.traces.retention import Renewal
    from mlflow_dynamodbstore.upkeep.cleanup import Report


class Days(click.ParamType[int]):
    """A retention: whole days, 0 for no expiry."""

    name = "days"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number of days. Fails with a sentence that says what to write."""
        text = str(value)
        if not (text.isascii() and text.isdigit() and int(text) <= MOST_DAYS):
            self.fail(
                f"{text!r} is not a number of days: write a whole number from 0 (never expire) "
                f"to {MOST_DAYS}",
                param,
                ctx,
            )
        return int(text)


DAYS = Days()


@click.group(cls=Group)
def ttl() -> None:
    """Set retention policies, and clean up orphans."""


@ttl.command()
@pass_table_options
def show(options: TableOptions, json: bool) -> None:
    """Show the retention policies."""
    _show(options.policies(), json=json)


@ttl.command("set", stopped=RESUMES, creates=True)
@click.option(
    "--soft-deleted-retention-days",
    SOFT_DELETED_RETENTION,
    type=DAYS,
    help="Days that deleted runs and experiments can be restored; 0: forever.",
)
@click.option(
    "--trace-retention-days",
    TRACE_RETENTION,
    type=DAYS,
    help="Days that traces are kept from their creation; 0: forever.",
)
@click.option(
    "--metric-history-retention-days",
    METRIC_HISTORY_RETENTION,
    type=DAYS,
    help="Days that the history of metrics is kept; 0: forever.",
)
@click.option("--keep-forever", is_flag=True, help="Let nothing expire: all three are 0.")
@click.option(
    "--no-wait",
    is_flag=True,
    help="Prolong traces at once, not when every server knows.",
)
@pass_table_options
def set_(
    options: TableOptions, /, keep_forever: bool, no_wait: bool, json: bool, **days: int | None
) -> None:
    """Change retention policies.

    A change applies to what is deleted or written from now on; servers see it within half a
    minute. A longer --trace-retention-days also prolongs existing traces; a shorter one leaves
    them alone. Prolonging starts when every server knows the new policy, so that no trace is
    missed. After Ctrl-C, run the same command again to finish.
    """
    chosen = {name: value for name, value in days.items() if value is not None}
    if keep_forever and chosen:
        raise click.UsageError("give --keep-forever without other policies")
    if keep_forever:
        chosen = dict.fromkeys(days, 0)
    if not chosen:
        raise click.UsageError(
            "give at least one policy, such as --trace-retention-days 60, or --keep-forever"
        )
    policies = options.policies(may_create=True)
    days_of_traces = chosen.pop(TRACE_RETENTION, None)
    for name, value in chosen.items():
        policies.set(name, value)
    renewed = None
    if days_of_traces is not None:
        renewed = change_trace_retention(
            options, policies, days_of_traces, wait=not no_wait, json=json
        )
    _show(policies, renewed, json=json)


@ttl.command(loads=MLFLOW, stopped=RESUMES)
@click.option("--dry-run", is_flag=True, help="Only count orphans.")
@click.option("--restart", is_flag=True, help="Start over instead of resuming the last cleanup.")
@click.option("--segments", type=WholeNumber(1, 64), help="Segments of the table to read at once.")
@click.option(
    "--grace",
    type=Number(min=0),
    default=GRACE_SECONDS,
    show_default=True,
    help="Seconds between the two checks of what may be an unfinished write.",
)
@pass_table_options
def cleanup(
    options: TableOptions,
    dry_run: bool,
    restart: bool,
    segments: int | None,
    grace: float,
    json: bool,
) -> None:
    """Find orphans, items that belong to nothing, and remove them.

    Most orphans are marked as expired: no answer contains them any more, and the storage deletes
    them at no cost. Search entries and names are deleted at once. Safe while servers run. After
    Ctrl-C, run the same command again to resume.
    """
    from mlflow_dynamodbstore.upkeep.cleanup import Cleanup

    table = options.table()
    with output.bar("looking for orphans", quiet=json) as shown:

        def progress(report: Report) -> None:
            waiting = f", second check in {report.waiting:.0f} s" if report.waiting else ""
            output.note(shown, f"{report.read:,} read, {report.orphans:,} orphans{waiting}")

        job = Cleanup(
            table,
            dry_run=dry_run,
            segments=segments or options.segments(),
            grace=grace,
            progress=progress,
        )
        report = job.run(restart=restart)
    _report(report, dry_run=dry_run, json=json)


def _report(report: Report, *, dry_run: bool, json: bool) -> None:
    if json:
        found = dict(sorted(report.found.items()))
        output.as_json(
            {
                "dry_run": dry_run,
                "read": report.read,
                "found": found,
                "orphans": report.orphans,
                "dated": report.dated,
                "removed": report.removed,
                "resumed": report.resumed,
            }
        )
        return
    if report.found:
        output.grid(
            "Items that belong to nothing",
            ("kind", "items"),
            [*sorted(report.found.items()), ("total", report.orphans)],
            numbers=("items",),
        )
    if dry_run:
        output.say(
            f"{report.read:,} items read, [bold]{report.orphans:,}[/] orphans. Dry run: "
            "nothing was changed."
        )
    else:
        output.say(
            f"{report.read:,} items read, [bold]{report.dated:,}[/] orphans marked as expired, "
            f"[bold]{report.removed:,}[/] removed."
        )


def _show(policies: Policies, renewed: Renewal | None = None, *, json: bool) -> None:
    from mlflow_dynamodbstore.shared.policies import ENVIRONMENT
    from mlflow_dynamodbstore.upkeep.settings import RETENTIONS, SETTINGS

    values = policies.all()
    if json:
        shown = {
            name: {"days": values[name], "source": policies.source(name)} for name in RETENTIONS
        }
        output.as_json(shown if renewed is None else {**shown, "traces": asdict(renewed)})
        return
    rows = [
        (name, _days(values[name]), policies.source(name), SETTINGS[name].meaning)
        for name in RETENTIONS
    ]
    output.grid("Retention", ("policy", "days", "from", "meaning"), rows, numbers=("days",))
    for name in RETENTIONS:
        if policies.source(name) == "environment":
            output.say(f"[yellow]{ENVIRONMENT[name]}[/] sets {name} in this process.")
    if renewed is not None:
        say_renewed(renewed)


def _days(value: object) -> str:
    return f"{value}" if value else "0 (never expire)"
