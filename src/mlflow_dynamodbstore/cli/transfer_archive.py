"""``copy``, ``dump``, ``load`` and ``compare``: whole tables as they are stored."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import RESUMES, Command, WholeNumber
from mlflow_dynamodbstore.cli.table_options import TableOptions, pass_table_options
from mlflow_dynamodbstore.cli.transfer_report import End, Report
from mlflow_dynamodbstore.table.errors import AccessDenied, Damaged, TableMissing, Unavailable
from mlflow_dynamodbstore.table.location import SCHEME, parse
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE

if TYPE_CHECKING:
    from rich.progress import Progress

    from mlflow_dynamodbstore.table.table import Table
    from mlflow_dynamodbstore.transfer.archive import comparison
    from mlflow_dynamodbstore.transfer.archive.comparison import Comparison
    from mlflow_dynamodbstore.transfer.archive.estimate import Estimate
    from mlflow_dynamodbstore.transfer.archive.file import Archive
    from mlflow_dynamodbstore.transfer.archive.sources import Source, TableSource
    from mlflow_dynamodbstore.upkeep.fill_state import FillProgress

LOADS = "mlflow_dynamodbstore.transfer.archive.file"

F = TypeVar("F", bound=Callable[..., Any])

PATIENCE = 300.0
"""How many seconds a throttled table is retried: a new table takes a while to scale up."""


class ArchiveAddress(click.Path):
    """A file, or an address elsewhere such as ``s3://bucket/mlflow.jsonl.gz``."""

    name = "file"

    def __init__(self) -> None:
        super().__init__(dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if _is_elsewhere(str(value)) else super().convert(value, param, ctx)


def _is_elsewhere(address: str) -> bool:
    return "://" in address


segments_option: Callable[[F], F] = click.option(
    "--segments", type=WholeNumber(1, 64), help="Segments of the table to read at once."
)
verify_option: Callable[[F], F] = click.option(
    "--verify", is_flag=True, help="Afterwards read both sides again and compare them."
)
dry_run_option: Callable[[F], F] = click.option(
    "--dry-run", is_flag=True, help="Only estimate the amount of data and what it costs."
)


@click.command(cls=Command, loads=LOADS, stopped=RESUMES)
@click.argument("target_uri")
@segments_option
@verify_option
@dry_run_option
@pass_table_options
def copy(
    options: TableOptions,
    target_uri: str,
    segments: int | None,
    verify: bool,
    dry_run: bool,
    json: bool,
) -> None:
    """Copy the whole table to an empty one.

    Items are copied as they are stored, without expired ones. After an interruption, run the same
    command again to resume.
    """
    from mlflow_dynamodbstore.transfer.archive.sources import TableSource

    report = Report(End.of(options.uri), End.of(target_uri), json=json)
    source = _source(options.uri, segments)
    if dry_run:
        trouble = _trouble_with(target_uri, source)
        report.cost(_estimate(source, json=json), verify=verify, trouble=trouble)
        return
    target = _opened(target_uri)
    filled = _fill("copying", target, source, json=json, total=source.last_count())
    report.filled(filled, _compare(source, TableSource(target), json=json) if verify else None)


@click.command(
    cls=Command, loads=LOADS, stopped="Stopped. No file was written; run the command again."
)
@click.argument("file", type=ArchiveAddress())
@segments_option
@verify_option
@dry_run_option
@click.option(
    "--skip-damaged", is_flag=True, help="Leave out damaged items, and list them at the end."
)
@pass_table_options
def dump(
    options: TableOptions,
    file: str,
    segments: int | None,
    verify: bool,
    dry_run: bool,
    skip_damaged: bool,
    json: bool,
) -> None:
    """Write the whole table to a file of JSON lines, compressed with gzip.

    FILE may be an address such as s3://bucket/mlflow.jsonl.gz.

    The file gets its name when it is complete. The items of a table in a file are checked: the
    first damaged one ends the command with code 7. With --skip-damaged everything else is saved,
    and the command ends with code 6 if something was left out.
    """
    from mlflow_dynamodbstore.transfer.archive.file import write_archive
    from mlflow_dynamodbstore.transfer.archive.fill import require_complete
    from mlflow_dynamodbstore.transfer.archive.sources import CheckedTableSource

    table = _opened(options.uri, create=False)
    with suppress(Damaged) if skip_damaged else nullcontext():
        require_complete(table)
    source = CheckedTableSource(table, segments, skip_damaged=skip_damaged)
    report = Report(End.of(options.uri), End(file), json=json)
    if dry_run:
        report.cost(_estimate(source, json=json), verify=verify)
        return
    with output.bar("writing", quiet=json) as shown:
        local = _to_be_sent(file) if _is_elsewhere(file) else Path(file)
        dumped = write_archive(
            local, source, MLFLOW_TABLE, time.time(), lambda items: _count(shown, items)
        )
        if _is_elsewhere(file):
            _send(local, file)
    compared = _compare(source, _checked(file, json=json), json=json) if verify else None
    report.dumped(dumped, compared, source.left_out)


@click.command(cls=Command, loads=LOADS, stopped=RESUMES, creates=True)
@click.argument("file", type=ArchiveAddress())
@verify_option
@dry_run_option
@pass_table_options
def load(options: TableOptions, file: str, verify: bool, dry_run: bool, json: bool) -> None:
    """Fill an empty table from a file that `dump` wrote.

    FILE may be an address such as s3://bucket/mlflow.jsonl.gz.

    The whole file is checked before anything is written. After an interruption, run the same
    command again to resume.
    """
    from mlflow_dynamodbstore.transfer.archive.sources import TableSource

    archive = _checked(file, json=json, target=options.uri)
    report = Report(End(file), End.of(options.uri), json=json)
    if dry_run:
        trouble = _trouble_with(options.uri, archive)
        report.cost(_estimate(archive, json=json), verify=verify, trouble=trouble)
        return
    target = _opened(options.uri)
    filled = _fill("loading", target, archive, json=json, total=archive.trailer["items"])
    report.filled(filled, _compare(archive, TableSource(target), json=json) if verify else None)


@click.command(cls=Command, loads=LOADS)
@click.argument("other")
@segments_option
@pass_table_options
def compare(options: TableOptions, other: str, segments: int | None, json: bool) -> None:
    """Compare the whole table with OTHER, a table URI or a file that `dump` wrote.

    Exits with code 6 if they differ, and lists the first keys that do.
    """
    first, second = _source(options.uri, segments), _other(other, segments, json=json)
    target = End.of(other) if other.startswith(SCHEME) else End(other)
    Report(End.of(options.uri), target, json=json).compared(_compare(first, second, json=json))


# --- what they share ----------------------------------------------------------------------------


def _opened(uri: str, *, create: bool | None = None) -> Table:
    from mlflow_dynamodbstore.table.retry import Retry
    from mlflow_dynamodbstore.table.table import Table
    from mlflow_dynamodbstore.table.uri import open_engine

    with output.spinner(f"opening {parse(uri)}"):
        engine = open_engine(uri, create=create)
    table = Table(engine, retry=Retry(deadline=PATIENCE))
    click.get_current_context().call_on_close(table.close)
    return table


def _source(uri: str, segments: int | None) -> TableSource:
    """A whole table as a source. It must exist, and be complete."""
    from mlflow_dynamodbstore.transfer.archive.fill import require_complete
    from mlflow_dynamodbstore.transfer.archive.sources import TableSource

    table = _opened(uri, create=False)
    require_complete(table)
    return TableSource(table, segments)


def _other(other: str, segments: int | None, *, json: bool) -> Source:
    from mlflow_dynamodbstore.transfer.archive.sources import TableSource

    if other.startswith(SCHEME):
        return TableSource(_opened(other, create=False), segments)
    return _checked(other, json=json)


def _trouble_with(uri: str, source: Source) -> str | None:
    """Why a target cannot be checked, if so; raises ``Refused`` for one with other data.

    Nothing is created: an estimate needs no table, and no account.
    """
    from mlflow_dynamodbstore.transfer.archive.fill import require_fillable

    try:
        require_fillable(_opened(uri, create=False), source.identity)
    except TableMissing as error:
        return None if parse(uri).creates_itself else str(error)
    except (AccessDenied, Unavailable) as error:
        return str(error)
    return None


def _checked(file: str, *, json: bool, target: str | None = None) -> Archive:
    """An archive that was read once, and whose items fit into the target if there is one."""
    from mlflow_dynamodbstore.transfer.archive.file import Archive

    local = _fetched(file) if _is_elsewhere(file) else Path(file)
    archive = Archive(local, with_copies=target is not None)
    with output.bar("checking", quiet=json) as shown:
        archive.check(lambda items: _count(shown, items))
    return archive


def _folder() -> Path:
    """A folder until the command ends."""
    context = click.get_current_context()
    return Path(context.with_resource(TemporaryDirectory(prefix="mlflow-archive-")))


def _to_be_sent(address: str) -> Path:
    from mlflow_dynamodbstore.transfer.archive.remote import split

    return _folder() / split(address)[1]


def _send(local: Path, address: str) -> None:
    from mlflow_dynamodbstore.transfer.archive.remote import send

    send(local, address)


def _fetched(address: str) -> Path:
    from mlflow_dynamodbstore.transfer.archive.remote import fetch

    with output.spinner(f"fetching {address}"):
        return fetch(address, _folder())


def _fill(
    what: str, target: Table, source: Source, *, json: bool, total: int | None = None
) -> FillProgress:
    from mlflow_dynamodbstore.transfer.archive.fill import TableFill

    with output.bar(what, quiet=json) as shown:
        fill = TableFill(target, source, lambda done: _count(shown, done.items, total), total)
        return fill.run()


def _estimate(source: Source, *, json: bool) -> Estimate:
    from mlflow_dynamodbstore.transfer.archive.estimate import estimate

    with output.bar("reading", quiet=json) as shown:
        return estimate(source, MLFLOW_TABLE, time.time(), lambda items: _count(shown, items))


def _compare(first: Source, second: Source, *, json: bool) -> Comparison:
    from mlflow_dynamodbstore.transfer.archive import comparison

    with output.bar("comparing", quiet=json) as shown:

        def progress(which: comparison.Which, items: int) -> None:
            output.note(shown, f"{items:,} items of the {which}")

        return comparison.compare(first, second, time.time(), progress)


def _count(shown: Progress, items: int, total: int | None = None) -> None:
    output.note(shown, f"{items:,} items", done=items, total=total)
