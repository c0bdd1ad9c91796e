"""``find``: traces by a client's request id, and runs by a dataset's digest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import RESUMES, Group
from mlflow_dynamodbstore.cli.table_options import TableOptions, pass_table_options

if TYPE_CHECKING:
    from mlflow_dynamodbstore.upkeep.backfill import BackfillProgress
    from mlflow_dynamodbstore.upkeep.lookups import FoundRun, FoundTrace

LOADS = "mlflow_dynamodbstore.upkeep.lookups"


@click.group(cls=Group)
def find() -> None:
    """Find traces by a client's request id, and runs by a dataset's digest, in all experiments."""


@find.command(loads=LOADS)
@click.argument("client_request_id")
@pass_table_options
def traces(options: TableOptions, client_request_id: str, json: bool) -> None:
    """List the traces of a request, by the id that the client gave to it."""
    from mlflow_dynamodbstore.upkeep.lookups import FoundTrace, find_traces

    found = find_traces(options.table(), client_request_id)
    _show(f"Traces of request {client_request_id}", FoundTrace._fields, found, json=json)


@find.command(loads=LOADS)
@click.argument("digest")
@pass_table_options
def runs(options: TableOptions, digest: str, json: bool) -> None:
    """List the runs that used a dataset, by the digest of the dataset."""
    from mlflow_dynamodbstore.upkeep.lookups import FoundRun, find_runs

    found = find_runs(options.table(), digest)
    _show(f"Runs that used dataset {digest}", FoundRun._fields, found, json=json)


@find.command(loads=LOADS, stopped=RESUMES)
@pass_table_options
def backfill(options: TableOptions, json: bool) -> None:
    """Index the requests, datasets and aliases that an earlier release wrote.

    Upgrade every process that uses the table first. After Ctrl-C, run the same command again.
    """
    from mlflow_dynamodbstore.upkeep.lookups import LookupBackfill

    with output.bar("indexing", quiet=json) as shown:

        def progress(done: BackfillProgress) -> None:
            text = f"{done.entries:,} entries"
            output.note(shown, text, done=done.places, total=done.places_in_all)

        done = LookupBackfill(options.table(), progress).backfill()
    if json:
        output.as_json(asdict(done))
    else:
        output.say(f"The indexes are complete: {done.entries:,} entries written.")


def _show(
    title: str,
    columns: Sequence[str],
    found: Sequence[FoundTrace] | Sequence[FoundRun],
    *,
    json: bool,
) -> None:
    if json:
        output.as_json([one._asdict() for one in found])
        return
    if not found:
        output.say(f"{output.escape(title)}: none.")
        return
    rows = [[str(cell) for cell in one] for one in found]
    output.grid(title, [name.replace("_", " ") for name in columns], rows)
