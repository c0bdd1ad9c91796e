"""init, verify and gc."""

from __future__ import annotations

import re
import sys
from dataclasses import asdict
from datetime import timedelta

import click

from versioned.cli.context import Settings, command
from versioned.cli.output import human_size, print_json, spinner, transfer
from versioned.errors import InvalidInput

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
FOUND_PROBLEMS = 5


@command
def init(settings: Settings) -> None:
    """Create the table if it is missing. A file or a local endpoint needs no init.

    Example:
      versioned --table dynamodb://us-east-1/artifacts --storage s3://my-bucket/artifacts init
    """
    with settings.repository(create=True) as repo:
        told = {"table": settings.table, "storage": repo.storage.uri}
    if settings.as_json:
        print_json(told)
    else:
        click.echo(f"table    {told['table']}\nstorage  {told['storage']}")


@command
@click.argument("name", required=False)
@click.option("--quick", is_flag=True, help="Compare sizes only; read no content.")
def verify(settings: Settings, name: str | None, quick: bool) -> None:
    """Check that rows, counts and bytes agree; exit with code 5 if they do not.

    Examples:
      versioned verify
      versioned verify my-app --quick
    """
    with settings.repository() as repo, transfer(settings, "verifying", None) as progress:
        if name is not None:
            repo.require_artifact(name)
        report = repo.verify(name, read_content=not quick, progress=progress)
    if settings.as_json:
        print_json({**asdict(report), "ok": report.ok})
    else:
        for problem in report.problems:
            click.echo(str(problem))
        count = len(report.problems) or "no"
        click.echo(
            f"{report.versions} versions, {report.contents} contents, "
            f"{human_size(report.bytes)} read: {count} problem{'s' * (count != 1)}"
        )
    if not report.ok:
        sys.exit(FOUND_PROBLEMS)


@command
@click.option("--dry-run", is_flag=True, help="Only list what would be removed.")
@click.option(
    "--grace",
    default="1d",
    show_default=True,
    help="Keep what became unused more recently than this: 90s, 30m, 12h, 7d.",
)
def gc(settings: Settings, dry_run: bool, grace: str) -> None:
    """Reclaim bytes that no version points at.

    Examples:
      versioned gc --dry-run
      versioned gc --grace 7d
    """
    period = _period(grace)
    with settings.repository() as repo, spinner(settings, "looking for unused content"):
        report = repo.gc(grace=period, dry_run=dry_run)
    if settings.as_json:
        print_json({**asdict(report), "bytes": report.bytes})
        return
    for one in report.reclaimed:
        click.echo(f"{human_size(one.size):>9}  {one.key}")
    for key in report.unfinished:
        click.echo(f"unfinished  {key}")
    verb = "would be reclaimed" if dry_run else "reclaimed"
    click.echo(
        f"{human_size(report.bytes)} {verb} from {len(report.reclaimed)} contents, "
        f"{len(report.unfinished)} unfinished uploads; {report.kept} contents kept"
    )


COMMANDS = (init, verify, gc)


def _period(text: str) -> timedelta:
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    if not found:
        raise InvalidInput(f"{text!r} is not a period: write it as 90s, 30m, 12h or 7d")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})
