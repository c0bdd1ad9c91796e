"""``import`` and ``export``: from a database of MLflow's own, and to one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.markup import escape
from rich.progress import Progress

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import Command
from mlflow_dynamodbstore.cli.exits import FINDINGS
from mlflow_dynamodbstore.cli.table_options import TableOptions, pass_table_options
from mlflow_dynamodbstore.shared.policies import (
    METRIC_HISTORY_RETENTION,
    SOFT_DELETED_RETENTION,
    TRACE_RETENTION,
    Policies,
)

if TYPE_CHECKING:
    from mlflow_dynamodbstore.transfer.sql.moving import Findings, Kind, Move, Verification

F = TypeVar("F", bound=Callable[..., Any])

_EXPIRING = {
    "traces": TRACE_RETENTION,
    "histories of metrics": METRIC_HISTORY_RETENTION,
    "what was deleted": SOFT_DELETED_RETENTION,
}
SHOWN = 10
"""Findings that people are shown; ``--json`` has more."""

verify_option: Callable[[F], F] = click.option(
    "--verify/--no-verify",
    default=True,
    show_default=True,
    help="Read both sides again afterwards and compare them.",
)
dry_run_option: Callable[[F], F] = click.option(
    "--dry-run", is_flag=True, help="Only count what is there; nothing is written."
)


@dataclass
class Job:
    """What a command is to move, and what it leaves."""

    title: str
    kinds: list[Kind]
    left: Callable[[], Mapping[str, int]]
    quiet: bool
    expiry: Mapping[str, int] = field(default_factory=dict)
    outcome: dict[str, Any] = field(default_factory=dict)


@click.command("import", cls=Command)
@click.argument("source")
@verify_option
@dry_run_option
@pass_table_options
@click.pass_context
def import_database(
    ctx: click.Context, options: TableOptions, source: str, verify: bool, dry_run: bool, json: bool
) -> None:
    """Bring a database of MLflow's own into the table, with its ids and times.

    SOURCE is what an MLflow server was given as its backend store, such as sqlite:///mlflow.db.
    Nobody may write to it meanwhile. What is in the table already stays as it is. Stopped with
    Ctrl-C, the same command given again does the rest.
    """
    from mlflow_dynamodbstore.transfer.sql import kinds  # noqa: PLC0415 - SQLAlchemy is large
    from mlflow_dynamodbstore.transfer.sql.database import Database  # noqa: PLC0415

    database = Database.to_read(source)
    ctx.call_on_close(database.close)
    job = Job(
        "Import",
        kinds.importing(database, options.table()),
        lambda: kinds.left_in_database(database),
        json,
        _expiry(options.policies()),
    )
    _do(ctx, job, verify=verify, dry_run=dry_run)


@click.command("export", cls=Command)
@click.argument("target")
@verify_option
@dry_run_option
@pass_table_options
@click.pass_context
def export_database(
    ctx: click.Context, options: TableOptions, target: str, verify: bool, dry_run: bool, json: bool
) -> None:
    """Write what the table has to a database of MLflow's own, with its ids and times.

    TARGET is such as sqlite:///mlflow.db: an empty database, in which MLflow's tables are made.
    Stopped with Ctrl-C, the same command given again does the rest.
    """
    from mlflow_dynamodbstore.transfer.sql import kinds  # noqa: PLC0415 - SQLAlchemy is large
    from mlflow_dynamodbstore.transfer.sql.database import Database  # noqa: PLC0415
    from mlflow_dynamodbstore.transfer.sql.items import Shelf  # noqa: PLC0415
    from mlflow_dynamodbstore.transfer.sql.leftovers import left_in_table  # noqa: PLC0415

    # Counting is no reason to make tables.
    database = Database(target) if dry_run else Database.to_write(target)
    ctx.call_on_close(database.close)
    table = options.table()
    job = Job("Export", kinds.exporting(table, database), lambda: left_in_table(Shelf(table)), json)
    _do(ctx, job, verify=verify, dry_run=dry_run)


def _do(ctx: click.Context, job: Job, *, verify: bool, dry_run: bool) -> None:
    clean = _count(job) if dry_run else _move(job, verify=verify)
    left = Counter(job.left())
    for kind in job.kinds:
        left.update(kind.source.left)
    _show_left({label: count for label, count in left.items() if count}, job)
    _show_expiry(job)
    if job.quiet:
        output.as_json(job.outcome)
    if not clean:
        ctx.exit(FINDINGS)


def _count(job: Job) -> bool:
    with output.bar("counting", quiet=job.quiet) as shown:
        counts = {}
        for kind in job.kinds:
            output.note(shown, kind.name)
            counts[kind.name] = kind.source.count()
    job.outcome["found"] = counts
    if not job.quiet:
        output.grid(f"{job.title}: what is there", ("kind", "found"), counts.items(), ("found",))
    return True


def _move(job: Job, *, verify: bool) -> bool:
    from mlflow_dynamodbstore.transfer.sql.moving import (  # noqa: PLC0415 - as above
        Move,
        Verification,
    )

    with output.bar(job.title.lower(), quiet=job.quiet) as shown:
        totals = {kind.name: kind.source.count() for kind in job.kinds}
        move = Move(lambda kind, done: _note(shown, kind, done, totals[kind]))
        for kind in job.kinds:
            move.move(kind)
    _show_move(move, job)
    if not verify:
        return not move.findings.total
    with output.bar("verifying", quiet=job.quiet) as shown:
        verification = Verification(lambda kind, done: _note(shown, kind, done, totals[kind]))
        for kind in job.kinds:
            verification.verify(kind)
    _show_verification(verification, move, job)
    return not (move.findings.total or verification.findings.total)


def _note(shown: Progress, kind: str, done: int, total: int) -> None:
    output.note(shown, f"{kind}: {done:,} of {total:,}", done, total)


# --- what is printed ----------------------------------------------------------------------------


def _show_move(move: Move, job: Job) -> None:
    from mlflow_dynamodbstore.transfer.sql.moving import Tally  # noqa: PLC0415 - as above

    job.outcome["moved"] = {kind: asdict(tally) for kind, tally in move.tallies.items()}
    job.outcome["findings"] = _as_json(move.findings)
    if job.quiet:
        return
    counts = {kind: asdict(tally) for kind, tally in move.tallies.items()}
    said = {"found", "written", "same"} | {n for t in counts.values() for n in t if t[n]}
    columns = [name for name in asdict(Tally()) if name in said]
    rows = [(kind, *(tally[name] for name in columns)) for kind, tally in counts.items()]
    shown = [name.replace("_", " ") for name in columns]
    output.grid(job.title, ("kind", *shown), rows, shown)
    _show_findings(move.findings)


def _show_verification(verification: Verification, move: Move, job: Job) -> None:
    job.outcome["verified"] = {k: asdict(c) for k, c in verification.comparisons.items()}
    job.outcome["differences"] = _as_json(verification.findings)
    if job.quiet:
        return
    rows = [
        (kind, c.compared, c.same, c.different, c.missing)
        for kind, c in verification.comparisons.items()
    ]
    columns = ("kind", "compared", "same", "different", "missing")
    output.grid("Verification", columns, rows, columns[1:])
    if not move.findings.total:
        _show_findings(verification.findings)


def _show_left(left: Mapping[str, int], job: Job) -> None:
    job.outcome["not_moved"] = dict(left)
    if left and not job.quiet:
        output.grid("Not moved", ("what", "count"), sorted(left.items()), ("count",))


def _expiry(policies: Policies) -> dict[str, int]:
    """After how many days what is imported expires; what does not is left out."""
    days = {what: policies.get(policy) for what, policy in _EXPIRING.items()}
    return {what: count for what, count in days.items() if count}


def _show_expiry(job: Job) -> None:
    if not job.expiry:
        return
    job.outcome["expires_in_days"] = dict(job.expiry)
    if not job.quiet:
        said = ", ".join(f"{what} in {days:,}" for what, days in job.expiry.items())
        output.say(f"Days until what is imported expires: {said}. `ttl set` changes that.")


def _show_findings(findings: Findings) -> None:
    for finding in findings.first[:SHOWN]:
        output.say(f"[yellow]{finding.kind}[/] {escape(finding.name)} {escape(finding.sentence)}")
    if findings.total > SHOWN:
        output.say(f"… and {findings.total - SHOWN:,} more")


def _as_json(findings: Findings) -> Iterable[Mapping[str, object]]:
    return [asdict(finding) for finding in findings.first]
