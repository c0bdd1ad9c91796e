"""``import`` and ``export``: from and to a database of MLflow's own SQL stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import RESUMES, Command
from mlflow_dynamodbstore.cli.exits import FINDINGS, Failure
from mlflow_dynamodbstore.cli.import_map import MAP_FILE, NewIds, map_file
from mlflow_dynamodbstore.cli.limits import (
    METRIC_HISTORY_RETENTION,
    SOFT_DELETED_RETENTION,
    TRACE_RETENTION,
)
from mlflow_dynamodbstore.cli.output import escape
from mlflow_dynamodbstore.cli.table_options import TableOptions, pass_table_options
from mlflow_dynamodbstore.cli.trace_retention import change_trace_retention
from mlflow_dynamodbstore.cli.transfer_findings import findings_as_json, show_findings
from mlflow_dynamodbstore.table.errors import TableMissing
from mlflow_dynamodbstore.table.location import SCHEME

if TYPE_CHECKING:
    from rich.progress import Progress

    from mlflow_dynamodbstore.shared.policies import Policies
    from mlflow_dynamodbstore.table.table import Table
    from mlflow_dynamodbstore.transfer.sql.database import Database
    from mlflow_dynamodbstore.transfer.sql.move import Findings, Move, Verification
    from mlflow_dynamodbstore.transfer.sql.renumbering import Changes
    from mlflow_dynamodbstore.transfer.sql.served import MlflowServer
    from mlflow_dynamodbstore.transfer.sql.transfer import Transfer

F = TypeVar("F", bound=Callable[..., Any])

_EXPIRING = {
    "traces": TRACE_RETENTION,
    "histories of metrics": METRIC_HISTORY_RETENTION,
    "what was deleted": SOFT_DELETED_RETENTION,
}
LOADS = "mlflow_dynamodbstore.transfer.sql.transfer"
IMPORT = "Import"
TAKEN = "Nothing was imported. --skip-taken leaves these out, and imports the rest."

verify_option: Callable[[F], F] = click.option(
    "--verify/--no-verify",
    default=True,
    show_default=True,
    help="Afterwards read both sides again and compare them.",
)
dry_run_option: Callable[[F], F] = click.option(
    "--dry-run", is_flag=True, help="Only count; write nothing."
)


@dataclass
class Job:
    """A transfer, how it reports, and what it reports to programs."""

    title: str
    transfer: Transfer
    quiet: bool
    expiry: Mapping[str, int] = field(default_factory=dict)
    new_ids: NewIds | None = None
    outcome: dict[str, Any] = field(default_factory=dict)
    taken: Findings | None = None
    """The names and ids that something else has in the table, where that was looked for."""


@click.command("import", cls=Command, loads=LOADS, stopped=RESUMES, creates=True)
@click.argument("source")
@verify_option
@dry_run_option
@click.option(
    "--keep-forever/--let-expire",
    default=None,
    help="Keep imported data for good, or let it expire by the table's retention.",
)
@click.option(
    "--renumber", is_flag=True, help="Give experiments new ids, to import into a table in use."
)
@click.option(
    "--into-workspace", metavar="NAME", help="Import everything into this workspace; renumbers."
)
@click.option(
    "--prefix", metavar="TEXT", help="Begin names of experiments and models so; renumbers."
)
@click.option(
    "--skip-taken", is_flag=True, help="Leave out what has a name or an id that is taken."
)
@click.option(
    "--map",
    "map_path",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"Where new ids are written, and read for grants.  [default: {MAP_FILE}]",
)
@pass_table_options
@click.pass_context
def import_database(
    ctx: click.Context,
    options: TableOptions,
    source: str,
    verify: bool,
    dry_run: bool,
    keep_forever: bool | None,
    renumber: bool,
    into_workspace: str | None,
    prefix: str | None,
    skip_taken: bool,
    map_path: Path | None,
    json: bool,
) -> None:
    """Import MLflow's own database into the table, with its ids and times.

    SOURCE is the backend store URI of an MLflow server, such as sqlite:///mlflow.db, a folder of
    MLflow's file store, such as ./mlruns, or the address of a running server. Stop the server first
    where you can. What the table already holds stays as it is. After an interruption, run the same
    command again to finish.

    MLflow keeps data until it is deleted; a table lets traces, histories of metrics and deleted
    runs expire. --keep-forever switches that off for the table, as `ttl set --keep-forever` does.
    Without either option the command asks on a terminal, and elsewhere warns.

    To import a second database into a table in use, add --renumber: its experiments get new ids,
    everything in them follows, and FILE tells which id became which. If the table uses a name or an
    id of the source for something else, it is listed, and nothing is imported.
    """
    from mlflow_dynamodbstore.shared.policies import Policies
    from mlflow_dynamodbstore.transfer.sql.served import NOT_SHOWN, MlflowServer
    from mlflow_dynamodbstore.transfer.sql.transfer import Transfer

    renumbers = bool(renumber or into_workspace or prefix)
    noted = map_file(map_path, renumbers=renumbers, writes=not dry_run)
    database = _opened(ctx, source)
    new_ids = None
    changes = None
    if renumbers:
        new_ids = NewIds(noted, database.address, str(options.location))
        changes = _changes(new_ids, into_workspace, prefix, has_tracking=database.has_tracking)
    table = _table_to_count(ctx, options) if dry_run else options.table(may_create=True)
    if isinstance(database, MlflowServer):
        output.warn(f"REST does not show {NOT_SHOWN}: import the database for these.")
        transfer = Transfer.from_server(database, table, changes)
    else:
        transfer = Transfer.from_database(database, table, changes)
    policies = Policies(table)
    job = Job(IMPORT, transfer, json, new_ids=new_ids)
    ctx.call_on_close(database.close)
    if not skip_taken and _taken(job) and not dry_run:
        _stop(ctx, job)
    if not dry_run and _keeps_forever(policies, keep_forever, json=json):
        _keep_forever(options, policies, json=json)
    job.expiry = _expiry(policies)
    _run(ctx, job, verify=verify, dry_run=dry_run)


@click.command("export", cls=Command, loads=LOADS, stopped=RESUMES)
@click.argument("target")
@verify_option
@dry_run_option
@pass_table_options
@click.pass_context
def export_database(
    ctx: click.Context, options: TableOptions, target: str, verify: bool, dry_run: bool, json: bool
) -> None:
    """Export the table to MLflow's own database, with its ids and times.

    TARGET is an empty database, such as sqlite:///mlflow.db; MLflow's tables are created in it.
    After an interruption, run the same command again to finish.
    """
    from mlflow_dynamodbstore.transfer.sql.transfer import Transfer

    table = options.table()
    with output.spinner("opening the database"):
        transfer = Transfer.to_database(table, target, create=not dry_run)
        why = transfer.other_data_in_target()
    if why is not None:
        raise Failure(
            f"{transfer.database.address} holds other data: {why}. Export to an empty database"
        )
    ctx.call_on_close(transfer.database.close)
    _run(ctx, Job("Export", transfer, json), verify=verify, dry_run=dry_run)


def _changes(
    new_ids: NewIds, workspace: str | None, prefix: str | None, *, has_tracking: bool
) -> Changes:
    from mlflow.store.workspace.abstract_store import WorkspaceNameValidator

    from mlflow_dynamodbstore.mlflow_compat.validation import validate_model_name
    from mlflow_dynamodbstore.transfer.sql.renumbering import Changes

    if prefix is not None:
        validate_model_name(prefix)
    if workspace is not None:
        WorkspaceNameValidator.validate(workspace)
    # A database of users alone has no experiments: its grants name those of another one.
    known = new_ids.read("experiments")
    return Changes(prefix or "", workspace, None if has_tracking else known)


def _keeps_forever(policies: Policies, wanted: bool | None, *, json: bool) -> bool:
    """Say what will expire before anything is written, and ask where somebody can answer."""
    expiry = _expiry(policies)
    if wanted is not None or not expiry:
        return bool(wanted)
    days = ", ".join(f"{what} after {days:,} days" for what, days in expiry.items())
    output.warn(f"[yellow]Imported data will expire in this table[/]: {days}.")
    chosen = any(policies.source(_EXPIRING[what]) != "default" for what in expiry)
    if json or chosen or not output.can_ask():
        output.warn("--keep-forever keeps it; `ttl set` changes the retention later.")
        return False
    return click.confirm("Keep everything forever instead?", default=True, err=True)


def _keep_forever(options: TableOptions, policies: Policies, *, json: bool) -> None:
    for policy in (METRIC_HISTORY_RETENTION, SOFT_DELETED_RETENTION):
        if policies.stored(policy) != 0:  # a repeated import changes nothing
            policies.set(policy, 0)
    change_trace_retention(options, policies, 0, wait=False, json=json)


def _opened(ctx: click.Context, source: str) -> Database | MlflowServer:
    """What is to be imported; the database of a folder is made for the moment."""
    from mlflow_dynamodbstore.transfer.sql.database import Database
    from mlflow_dynamodbstore.transfer.sql.file_store import database_of_folder, folder_of
    from mlflow_dynamodbstore.transfer.sql.served import MlflowServer

    if source.startswith(("http://", "https://")):
        return MlflowServer(source)
    folder = folder_of(source)
    if folder is None:
        with output.spinner("opening the database"):
            return Database.to_read(source)
    into = Path(ctx.with_resource(TemporaryDirectory(prefix="mlflow-import-")))
    with output.spinner(f"reading {folder}"):
        return database_of_folder(folder, into)


def _taken(job: Job) -> bool:
    """Whether something else has names or ids that an import needs: nothing is written then."""
    with output.spinner("looking for names and ids that are taken"):
        job.taken = job.transfer.obstacles()
    return bool(job.taken.total)


def _stop(ctx: click.Context, job: Job) -> NoReturn:
    assert job.taken is not None
    job.outcome.update(findings=findings_as_json(job.taken), moved={})
    if job.quiet:
        output.as_json(job.outcome)
    else:
        show_findings(job.taken)
        output.say(TAKEN)
    ctx.exit(FINDINGS)


def _table_to_count(ctx: click.Context, options: TableOptions) -> Table:
    """The table, or an empty one for the moment if it is only created by the import itself."""
    from mlflow_dynamodbstore.table.table import Table
    from mlflow_dynamodbstore.table.uri import open_engine

    try:
        return options.table()
    except TableMissing:
        if not options.location.creates_itself:
            raise
    folder = ctx.with_resource(TemporaryDirectory())
    table = Table(open_engine(f"{SCHEME}/{folder}/empty.ddb"))
    ctx.call_on_close(table.close)
    return table


def _run(ctx: click.Context, job: Job, *, verify: bool, dry_run: bool) -> None:
    clean = _count(job) if dry_run else _move(job, verify=verify)
    _show_not_moved(job)
    _show_expiry(job)
    if dry_run and job.title == IMPORT:
        _show_cost(job)
    if job.quiet:
        output.as_json(job.outcome)
    if not clean:
        ctx.exit(FINDINGS)


def _count(job: Job) -> bool:
    with output.bar("counting", quiet=job.quiet) as shown:
        counts = job.transfer.count(lambda kind: output.note(shown, kind))
    job.outcome["found"] = counts
    if not job.quiet:
        found = [(kind, count) for kind, count in counts.items() if count]
        output.grid(f"{job.title}: dry run", ("kind", "found"), found, ("found",))
    if job.taken is None or not job.taken.total:
        return True
    job.outcome["findings"] = findings_as_json(job.taken)
    if not job.quiet:
        show_findings(job.taken)
    return False


def _move(job: Job, *, verify: bool) -> bool:
    with output.bar(job.title.lower(), quiet=job.quiet) as shown:
        totals = job.transfer.count()
        move = job.transfer.move(lambda kind, done: _note(shown, kind, done, totals[kind]), totals)
    _show_move(move, job)
    _show_new_ids(job)
    if not verify:
        return not move.findings.total
    with output.bar("verifying", quiet=job.quiet) as shown:
        verification = job.transfer.verify(
            lambda kind, done: _note(shown, kind, done, totals[kind])
        )
    _show_verification(verification, move, job)
    return not (move.findings.total or verification.findings.total)


def _note(shown: Progress, kind: str, done: int, total: int) -> None:
    output.note(shown, f"{kind}: {done:,} of {total:,}", done, total)


# --- what is printed ----------------------------------------------------------------------------


def _show_move(move: Move, job: Job) -> None:
    tallies = {kind: asdict(tally) for kind, tally in move.tallies.items()}
    job.outcome["moved"] = tallies
    job.outcome["findings"] = findings_as_json(move.findings)
    job.outcome["held_back"] = {one: dict(kinds) for one, kinds in move.held_back.items()}
    if job.quiet:
        return
    always = ("found", "written", "same")
    names = dict.fromkeys(name for tally in tallies.values() for name in tally)
    columns = [n for n in names if n in always or any(tally[n] for tally in tallies.values())]
    rows = [
        (kind, *(tally[name] for name in columns))
        for kind, tally in tallies.items()
        if tally["found"]
    ]
    shown = [name.replace("_", " ") for name in columns]
    output.grid(job.title, ("kind", *shown), rows, shown)
    show_findings(move.findings, move.held_back)


def _show_verification(verification: Verification, move: Move, job: Job) -> None:
    job.outcome["verified"] = {kind: asdict(t) for kind, t in verification.tallies.items()}
    job.outcome["differences"] = findings_as_json(verification.findings)
    if job.quiet:
        return
    rows = [
        (kind, t.compared, t.same, t.different, t.missing)
        for kind, t in verification.tallies.items()
        if t.compared
    ]
    columns = ("kind", "compared", "same", "different", "missing")
    output.grid("Verification", columns, rows, columns[1:])
    if not move.findings.total:
        show_findings(verification.findings)


def _show_new_ids(job: Job) -> None:
    if job.new_ids is None or job.transfer.renumbering is None:
        return
    numbers = job.transfer.renumbering.numbers()
    job.new_ids.write(numbers)
    job.outcome["new_ids"] = numbers
    if not job.quiet:
        output.say(f"New ids: {escape(str(job.new_ids.path))}")


def _show_not_moved(job: Job) -> None:
    not_moved = job.outcome["not_moved"] = job.transfer.not_moved()
    if not_moved and not job.quiet:
        output.grid("Not moved", ("what", "count"), sorted(not_moved.items()), ("count",))


def _expiry(policies: Policies) -> dict[str, int]:
    """After how many days imported entities expire, for those that do."""
    days = {what: policies.get(policy) for what, policy in _EXPIRING.items()}
    return {what: count for what, count in days.items() if count}


def _show_expiry(job: Job) -> None:
    if not job.expiry:
        return
    job.outcome["expires_in_days"] = dict(job.expiry)
    if not job.quiet:
        days = ", ".join(f"{what} in {days:,}" for what, days in job.expiry.items())
        output.say(f"Days until imported data expires: {days}. `ttl set` changes that.")


def _show_cost(job: Job) -> None:
    """What the workload of the database costs a month on DynamoDB."""
    from mlflow_dynamodbstore.cli.estimate import as_json, show
    from mlflow_dynamodbstore.transfer.sql.database import Database
    from mlflow_dynamodbstore.transfer.sql.workload import workload_of
    from mlflow_dynamodbstore.upkeep.cost_estimate import estimate

    database = job.transfer.database
    if not isinstance(database, Database) or not database.has_tracking:
        return
    with output.spinner("measuring"):
        made = estimate(workload_of(database))
    job.outcome["estimate"] = as_json(made)
    if not job.quiet:
        output.say("If the team goes on as in the last 30 days of this database, on DynamoDB:")
        show(made)
