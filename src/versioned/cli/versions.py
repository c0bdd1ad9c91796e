"""names, versions, delete, undelete and purge."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from versioned.cli.context import Settings, command, paged
from versioned.cli.output import (
    SHORT_DIGEST,
    artifact_json,
    human_size,
    print_json,
    print_page,
    spinner,
)
from versioned.errors import InvalidReference

if TYPE_CHECKING:
    from versioned.references import Reference
    from versioned.rows import Artifact


@command
@paged
def names(settings: Settings, limit: int, cursor: str | None) -> None:
    """List the artifacts.

    Example:
      versioned names --limit 20
    """
    with settings.repository() as repo:
        page = repo.list_names(limit=limit, cursor=cursor)
    print_page(settings, page, lambda name: name, {"name": lambda name: name})


@command
@click.argument("name")
@click.option("--oldest-first", is_flag=True, help="LATEST still comes first.")
@click.option("--deleted", is_flag=True, help="Also list deleted versions.")
@paged
def versions(
    settings: Settings,
    name: str,
    oldest_first: bool,
    deleted: bool,
    limit: int,
    cursor: str | None,
) -> None:
    """List the versions of an artifact: LATEST, then the newest first.

    Examples:
      versioned versions my-app
      versioned versions my-app --deleted --json
    """
    with settings.repository() as repo:
        page = repo.list_versions(
            name, limit=limit, cursor=cursor, oldest_first=oldest_first, include_deleted=deleted
        )
        if not page.items and cursor is None:
            repo.require_artifact(name)
    print_page(
        settings,
        page,
        artifact_json,
        {
            "version": lambda row: row.version,
            "size": lambda row: human_size(row.size),
            "sha256": lambda row: (row.sha256 or "")[:SHORT_DIGEST],
            "updated": lambda row: row.update_at,
            "by": lambda row: row.by,
            "": lambda row: "deleted" if row.is_deleted else row.metadata,
        },
    )


@command
@click.argument("reference")
def delete(settings: Settings, reference: str) -> None:
    """Hide a version until it is undeleted. A version that an alias points at is protected.

    Example:
      versioned delete my-app/3
    """
    wanted = _version(reference)
    with settings.repository() as repo:
        _tell(
            settings,
            repo.delete(wanted.name, wanted.version),
            "deleted; `versioned undelete` restores it",
        )


@command
@click.argument("reference")
def undelete(settings: Settings, reference: str) -> None:
    """Restore a deleted version.

    Example:
      versioned undelete my-app/3
    """
    wanted = _version(reference)
    with settings.repository() as repo:
        _tell(settings, repo.undelete(wanted.name, wanted.version), "restored")


@command
@click.argument("reference")
@click.option("--all", "all_versions", is_flag=True, help="Remove all versions, deleted or not.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def purge(settings: Settings, reference: str, all_versions: bool, yes: bool) -> None:
    """Remove a deleted version for good. Its number is never used again; `gc` reclaims its bytes.

    Examples:
      versioned purge my-app/3
      versioned purge my-app --all
    """
    wanted = _version(reference)
    if not yes:
        what = f"all versions of {wanted.name}" if all_versions else str(wanted)
        try:
            click.confirm(f"Remove {what} for good?", abort=True, err=True)
        except click.Abort as error:
            raise click.ClickException(
                "not confirmed, so nothing was removed; --yes confirms without a question"
            ) from error
    with settings.repository() as repo:
        if not all_versions:
            _tell(settings, repo.purge(wanted.name, wanted.version), "purged")
            return
        with spinner(settings, f"purging {wanted.name}"):
            count = repo.purge_artifact(wanted.name)
    if settings.as_json:
        print_json({"name": wanted.name, "purged": count})
    else:
        click.echo(f"{wanted.name}: {count} versions purged")


COMMANDS = (names, versions, delete, undelete, purge)


def _version(reference: str) -> Reference:
    from versioned.references import parse_reference

    wanted = parse_reference(reference)
    if wanted.alias is not None:
        raise InvalidReference(
            f"{reference!r} names an alias: name the version itself, as in my-app/3"
        )
    return wanted


def _tell(settings: Settings, row: Artifact, what: str) -> None:
    if settings.as_json:
        print_json(artifact_json(row))
    else:
        click.echo(f"{row.name}/{row.version} {what}")
