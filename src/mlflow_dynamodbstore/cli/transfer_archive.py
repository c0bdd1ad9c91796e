"""``copy``, ``dump``, ``load`` and ``compare``: whole tables, moved and held against each other."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.progress import Progress

from mlflow_dynamodbstore.cli import output
from mlflow_dynamodbstore.cli.common import Command
from mlflow_dynamodbstore.cli.target import Place, pass_place
from mlflow_dynamodbstore.cli.transfer_report import Report, Side
from mlflow_dynamodbstore.table.errors import AccessDenied, TableMissing, Unavailable
from mlflow_dynamodbstore.table.location import SCHEME, parse
from mlflow_dynamodbstore.table.retry import Retry
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.transfer.archive import comparing
from mlflow_dynamodbstore.transfer.archive.comparing import Comparison
from mlflow_dynamodbstore.transfer.archive.estimate import Estimate, estimate
from mlflow_dynamodbstore.transfer.archive.file import Archive, write_archive
from mlflow_dynamodbstore.transfer.archive.filling import (
    Filling,
    require_complete,
    require_fillable,
)
from mlflow_dynamodbstore.transfer.archive.notes import Filled
from mlflow_dynamodbstore.transfer.archive.sources import Source, TableSource

F = TypeVar("F", bound=Callable[..., Any])

PATIENCE = 300.0
"""Seconds for which a table may ask for fewer requests: a new one takes a while to grow."""

segments_option: Callable[[F], F] = click.option(
    "--segments", type=click.IntRange(1, 64), help="Parts of the table read at once."
)
verify_option: Callable[[F], F] = click.option(
    "--verify", is_flag=True, help="Read both sides again afterwards and compare them."
)
dry_run_option: Callable[[F], F] = click.option(
    "--dry-run", is_flag=True, help="Only say how much it is, and what it will cost."
)


@click.command(cls=Command)
@click.argument("target_uri")
@segments_option
@verify_option
@dry_run_option
@pass_place
def copy(
    place: Place, target_uri: str, segments: int | None, verify: bool, dry_run: bool, json: bool
) -> None:
    """Copy the whole table into another one, which is empty.

    Items are copied as they are stored; those that have expired are left out. Stopped at any
    point, the same command goes on where it was.
    """
    source = _source(place.uri, segments)
    report = Report(Side.of(place.uri), Side.of(target_uri), json=json)
    if dry_run:
        trouble = _trouble_with(target_uri, source)
        report.cost(_estimate(source, json=json), verify=verify, trouble=trouble)
        return
    target = _opened(target_uri)
    filled = _fill("copying", target, source, json=json)
    report.filled(filled, _compare(source, TableSource(target), json=json) if verify else None)


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@segments_option
@verify_option
@dry_run_option
@pass_place
def dump(
    place: Place, file: Path, segments: int | None, verify: bool, dry_run: bool, json: bool
) -> None:
    """Write the whole table into a file: JSON lines, compressed with gzip.

    The file gets its name when it is complete.
    """
    source = _source(place.uri, segments)
    report = Report(Side.of(place.uri), Side(str(file)), json=json)
    if dry_run:
        report.cost(_estimate(source, json=json), verify=verify)
        return
    with output.bar("writing", quiet=json) as shown:
        dumped = write_archive(
            file, source, MLFLOW_TABLE, time.time(), lambda items: _count(shown, items)
        )
    compared = _compare(source, _checked(file, json=json), json=json) if verify else None
    report.dumped(dumped, compared)


@click.command(cls=Command)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@verify_option
@dry_run_option
@pass_place
def load(place: Place, file: Path, verify: bool, dry_run: bool, json: bool) -> None:
    """Fill an empty table from a file that `dump` has written.

    All of the file is checked before anything is written. Stopped at any point, the same command
    goes on where it was.
    """
    archive = _checked(file, json=json)
    report = Report(Side(str(file)), Side.of(place.uri), json=json)
    if dry_run:
        trouble = _trouble_with(place.uri, archive)
        report.cost(_estimate(archive, json=json), verify=verify, trouble=trouble)
        return
    target = _opened(place.uri)
    filled = _fill("loading", target, archive, json=json, total=archive.trailer["items"])
    report.filled(filled, _compare(archive, TableSource(target), json=json) if verify else None)


@click.command(cls=Command)
@click.argument("other")
@segments_option
@pass_place
def compare(place: Place, other: str, segments: int | None, json: bool) -> None:
    """Compare the whole table with OTHER, a table URI or a file that `dump` has written.

    Ends with code 6 when they differ, and names the first keys that do.
    """
    first, second = _source(place.uri, segments), _other(other, segments, json=json)
    side = Side.of(other) if other.startswith(SCHEME) else Side(other)
    Report(Side.of(place.uri), side, json=json).compared(_compare(first, second, json=json))


# --- what they share ----------------------------------------------------------------------------


def _opened(uri: str, *, create: bool | None = None) -> Table:
    table = Table(open_engine(uri, create=create), retry=Retry(deadline=PATIENCE))
    click.get_current_context().call_on_close(table.close)
    return table


def _source(uri: str, segments: int | None) -> TableSource:
    """A table to be read whole. One that is missing is not made, and a part is not taken for it."""
    table = _opened(uri, create=False)
    require_complete(table)
    return TableSource(table, segments)


def _other(other: str, segments: int | None, *, json: bool) -> Source:
    if other.startswith(SCHEME):
        return TableSource(_opened(other, create=False), segments)
    return _checked(Path(other), json=json)


def _trouble_with(uri: str, source: Source) -> str | None:
    """Why a target could not be looked at; one that holds anything else is refused.

    Nothing is made. Who asks for the price may not have a table yet, nor an account.
    """
    try:
        require_fillable(_opened(uri, create=False), source.identity)
    except TableMissing as error:
        return None if parse(uri).creates_itself else str(error)
    except (AccessDenied, Unavailable) as error:
        return str(error)
    return None


def _checked(file: Path, *, json: bool) -> Archive:
    archive = Archive(file)
    with output.bar("checking", quiet=json) as shown:
        archive.check(lambda items: _count(shown, items))
    return archive


def _fill(
    what: str, target: Table, source: Source, *, json: bool, total: int | None = None
) -> Filled:
    with output.bar(what, quiet=json) as shown:
        return Filling(target, source, lambda done: _count(shown, done.items, total)).run()


def _estimate(source: Source, *, json: bool) -> Estimate:
    with output.bar("reading", quiet=json) as shown:
        return estimate(source, MLFLOW_TABLE, time.time(), lambda items: _count(shown, items))


def _compare(first: Source, second: Source, *, json: bool) -> Comparison:
    with output.bar("comparing", quiet=json) as shown:

        def progress(side: comparing.Side, items: int) -> None:
            output.note(shown, f"{items:,} items of the {side}")

        return comparing.compare(first, second, time.time(), progress)


def _count(shown: Progress, items: int, total: int | None = None) -> None:
    output.note(shown, f"{items:,} items", done=items, total=total)
