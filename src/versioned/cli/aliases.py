"""The verbs of aliases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from versioned.cli.context import Group, Settings, command, help_text, paged, recorded
from versioned.cli.output import alias_json, change_json, print_json, print_one, print_page

if TYPE_CHECKING:
    from versioned.aliases import AliasChange
    from versioned.rows import Alias


@click.group("alias", cls=Group)
def alias() -> None:
    """Name versions (prod, test), split traffic, show history and roll back.

    Example:
      versioned alias put my-app prod 1
      versioned alias canary my-app prod 2 --weight 10
      versioned alias promote my-app prod
    """


alias.help = help_text(alias.callback) if alias.callback else None


def _verb(function: Any) -> click.Command:
    made = command(function)
    alias.add_command(made)
    return made


@_verb
@click.argument("name")
@click.argument("alias")
@click.argument("version", required=False)
@click.option("--secondary-version", help="A second version, for a percentage of the keys.")
@click.option("--weight", type=int, help="Percentage of keys that get it, 0 to 99.")
@recorded
def put(
    settings: Settings,
    name: str,
    alias: str,
    version: str | None,
    secondary_version: str | None,
    weight: int | None,
    **note: Any,
) -> None:
    """Point an alias at a version, by default LATEST.

    Examples:
      versioned alias put my-app prod 3 --reason "release 2.1"
      versioned alias put my-app prod 3 --expected-revision 7
    """
    with settings.repository() as repo:
        row = repo.put_alias(name, alias, version, secondary_version, weight, **note)
    _tell(settings, row)


@_verb
@click.argument("name")
@click.argument("alias")
def get(settings: Settings, name: str, alias: str) -> None:
    """Show the version of an alias, since when, and why.

    Example:
      versioned alias get my-app prod
    """
    with settings.repository() as repo:
        print_one(settings, alias_json(repo.get_alias(name, alias)))


@_verb
@click.argument("name")
@paged
def list_(settings: Settings, name: str, limit: int, cursor: str | None) -> None:
    """List the aliases of an artifact.

    Example:
      versioned alias list my-app
    """
    with settings.repository() as repo:
        page = repo.list_aliases(name, limit=limit, cursor=cursor)
        if not page.items and cursor is None:
            repo.require_artifact(name)
    print_page(
        settings,
        page,
        alias_json,
        {
            "alias": lambda row: row.alias,
            "points at": _points_at,
            "revision": lambda row: row.revision,
            "updated": lambda row: row.update_at,
            "by": lambda row: row.by,
        },
    )


@_verb
@click.argument("name")
@click.argument("alias")
@recorded
def delete(settings: Settings, name: str, alias: str, **note: Any) -> None:
    """Delete an alias. Its history stays, and `alias rollback` restores it.

    Example:
      versioned alias delete my-app test
    """
    with settings.repository() as repo:
        repo.delete_alias(name, alias, **note)
    _tell_gone(settings, name, alias)


@_verb
@click.argument("name")
@click.argument("alias")
@click.argument("version")
@click.option("--weight", type=int, required=True, help="Percentage of keys, 0 to 99.")
@recorded
def canary(
    settings: Settings, name: str, alias: str, version: str, weight: int, **note: Any
) -> None:
    """Give a percentage of the keys a second version.

    Example:
      versioned alias canary my-app prod 4 --weight 10
    """
    with settings.repository() as repo:
        _tell(settings, repo.canary(name, alias, version, weight, **note))


@_verb
@click.argument("name")
@click.argument("alias")
@recorded
def promote(settings: Settings, name: str, alias: str, **note: Any) -> None:
    """End a canary with success: everybody gets the secondary version.

    Example:
      versioned alias promote my-app prod
    """
    with settings.repository() as repo:
        _tell(settings, repo.promote(name, alias, **note))


@_verb
@click.argument("name")
@click.argument("alias")
@recorded
def abort(settings: Settings, name: str, alias: str, **note: Any) -> None:
    """End a canary without success: everybody gets the primary version again.

    Example:
      versioned alias abort my-app prod --reason "more errors"
    """
    with settings.repository() as repo:
        _tell(settings, repo.abort(name, alias, **note))


@_verb
@click.argument("name")
@click.argument("alias")
@click.option(
    "--to",
    type=int,
    metavar="REVISION",
    help="Return to the state after this revision. [default: before the last change]",
)
@recorded
def rollback(settings: Settings, name: str, alias: str, to: int | None, **note: Any) -> None:
    """Undo the last change of an alias, or return to an earlier revision.

    Examples:
      versioned alias rollback my-app prod
      versioned alias rollback my-app prod --to 4
    """
    with settings.repository() as repo:
        row = repo.rollback(name, alias, to, **note)
    if row is None:
        _tell_gone(settings, name, alias)
    else:
        _tell(settings, row)


@_verb
@click.argument("name")
@click.argument("alias")
@paged
def history(settings: Settings, name: str, alias: str, limit: int, cursor: str | None) -> None:
    """List the changes of an alias, newest first.

    Example:
      versioned alias history my-app prod
    """
    with settings.repository() as repo:
        page = repo.history(name, alias, limit=limit, cursor=cursor)
        if not page.items and cursor is None:
            repo.get_alias(name, alias)  # raises what is not there
    columns: dict[str, Any] = {
        "revision": lambda change: change.revision,
        "action": lambda change: change.action,
        "before": lambda change: _state(change, "before"),
        "after": lambda change: _state(change, "after"),
        "at": lambda change: change.at,
        "by": lambda change: change.by,
        "reason": lambda change: change.reason,
    }
    print_page(settings, page, change_json, columns)


def _state(change: AliasChange, moment: str) -> str:
    return str(getattr(change, moment) or "-")


def _points_at(row: Alias) -> str:
    shown = row.to_dict()
    if shown["secondary_version"] is None:
        return str(shown["version"])
    weight, secondary = shown["secondary_version_weight"], shown["secondary_version"]
    return f"{shown['version']}, {weight} % to {secondary}"


def _tell(settings: Settings, row: Alias) -> None:
    if settings.as_json:
        print_json(alias_json(row))
    else:
        click.echo(f"{row.name}@{row.alias} points at {_points_at(row)} (revision {row.revision})")


def _tell_gone(settings: Settings, name: str, alias: str) -> None:
    if settings.as_json:
        print_json({"name": name, "alias": alias, "deleted": True})
    else:
        click.echo(f"{name}@{alias} is deleted")
