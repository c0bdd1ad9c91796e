"""Versions that exist: showing, listing, deleting, bringing back, purging."""

from __future__ import annotations

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.table.contract import Check, Delete, Patch, Query, TransactWrite
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item
from versioned import blobs, times
from versioned.errors import (
    ArtifactNotFound,
    NotDeleted,
    NotFound,
    VersionDeleted,
    VersionInUse,
    VersionNotFound,
)
from versioned.home import ABSENT, Home, unchanged
from versioned.keys import NUMBERED
from versioned.listing import DEFAULT_LIMIT, Page, check_limit, read_page
from versioned.names import LATEST, check_name, parse_version
from versioned.rows import Alias, Artifact

_AFTER_LATEST = "-"
"""Cursor of a listing from the oldest version on, of which only LATEST was given yet."""


def show(
    home: Home, name: str, version: int | str | None = None, *, include_deleted: bool = False
) -> Artifact:
    """A version. Raises ``ArtifactNotFound``, ``VersionNotFound``, ``VersionDeleted``."""
    check_name(name)
    item = home.table.get(home.keys.version(name, version))
    if item is None:
        raise _not_found(home, name, version)
    found = Artifact.from_item(item)
    if found.is_deleted and not include_deleted:
        raise VersionDeleted(
            f"version {found.version} of {name!r} is deleted: undelete it to use it again"
        )
    return found


def list_versions(
    home: Home,
    name: str,
    *,
    limit: int = DEFAULT_LIMIT,
    cursor: str | None = None,
    oldest_first: bool = False,
    include_deleted: bool = False,
) -> Page[Artifact]:
    """LATEST, then the numbered versions, newest first unless asked otherwise."""
    check_name(name)
    check_limit(limit)
    query = Query(
        home.keys.versions(name),
        descending=not oldest_first,
        filter=None if include_deleted else Attr("is_deleted").ne(True),
    )
    if not oldest_first:  # LATEST sorts after all digits, so backwards it comes first by itself
        return read_page(home, query, limit, cursor, Artifact.from_item)
    numbered = Query(query.partition, where=NUMBERED, filter=query.filter)
    if cursor == _AFTER_LATEST:
        return read_page(home, numbered, limit, None, Artifact.from_item)
    if cursor is not None:
        return read_page(home, numbered, limit, cursor, Artifact.from_item)
    latest = _latest_alone(home, name, include_deleted)
    if len(latest) == limit:
        return Page(latest, _AFTER_LATEST)
    page = read_page(home, numbered, limit - len(latest), None, Artifact.from_item)
    return Page(latest + page.items, page.cursor)


def list_names(home: Home, *, limit: int = DEFAULT_LIMIT, cursor: str | None = None) -> Page[str]:
    """The names of all artifacts, in order."""
    check_limit(limit)
    return read_page(home, Query(home.keys.names), limit, cursor, lambda item: str(item["sk"]))


def delete(home: Home, name: str, version: int | str | None) -> Artifact:
    """Hide a version. Raises ``VersionInUse`` when an alias points at it."""
    check_name(name)
    for _ in home.attempts():
        # The count of alias changes is read before the aliases: one that comes later is noticed.
        state = home.table.get(home.keys.state(name)) or {}
        found = show(home, name, version, include_deleted=True)
        if found.is_deleted:
            return found
        refuse_if_in_use(home, found)
        deletion = _deletion(home, found, deleted=True)
        if home.changed([deletion, _no_alias_since(home, name, state)]) is None:
            found.is_deleted, found.update_at = True, home.now
            return found
    raise AssertionError("attempts end by raising")


def undelete(home: Home, name: str, version: int | str | None) -> Artifact:
    """Bring a deleted version back."""
    check_name(name)
    for _ in home.attempts():
        found = show(home, name, version, include_deleted=True)
        if not found.is_deleted:
            return found
        if home.changed([_deletion(home, found, deleted=False)]) is None:
            found.is_deleted, found.update_at = False, home.now
            return found
    raise AssertionError("attempts end by raising")


def purge(home: Home, name: str, version: int | str | None) -> Artifact:
    """Remove a deleted version for good. Its number is not used again; ``gc`` takes its bytes."""
    check_name(name)
    for _ in home.attempts():
        found = show(home, name, version, include_deleted=True)
        if not found.is_deleted:
            raise NotDeleted(
                f"version {found.version} of {name!r} is not deleted: delete it first; what is "
                "purged cannot be brought back"
            )
        if home.changed(_removal(home, found)) is None:
            return found
    raise AssertionError("attempts end by raising")


def purge_artifact(home: Home, name: str) -> int:
    """Remove all versions of an artifact; returns how many. The history of its aliases stays.

    Raises ``VersionInUse`` while it has aliases. Can be called again after a crash.
    """
    check_name(name)
    purged = 0
    for _ in home.attempts():
        state = home.table.get(home.keys.state(name)) or {}
        aliases = [Alias.from_item(item).alias for item in _aliases(home, name)]
        if aliases:
            raise VersionInUse(
                f"{name!r} has the aliases {', '.join(aliases)}: delete them first", aliases
            )
        for item in home.table.items(Query(home.keys.versions(name), limit=100)):
            found = Artifact.from_item(item)
            delete(home, name, found.version)
            purge(home, name, found.version)
            purged += 1
        if not purged and not state.get("listed"):
            raise _not_found(home, name, None)
        if home.changed(_unlisting(home, name, state)) is None:
            return purged
    raise AssertionError("attempts end by raising")


def refuse_if_in_use(home: Home, found: Artifact) -> None:
    """Raises ``VersionInUse`` when an alias points at a version."""
    using = [
        row.alias
        for row in map(Alias.from_item, _aliases(home, found.name))
        if found.sk in row.points_at
    ]
    if using:
        raise VersionInUse(
            f"{_named(using)} at version {found.version} of {found.name!r}: "
            "move or delete it first",
            using,
        )


def _named(aliases: list[str]) -> str:
    names = ", ".join(repr(alias) for alias in aliases)
    return f"the alias {names} points" if len(aliases) == 1 else f"the aliases {names} point"


def _aliases(home: Home, name: str) -> list[Item]:
    return list(home.table.items(Query(home.keys.aliases(name), limit=100)))


def _latest_alone(home: Home, name: str, include_deleted: bool) -> list[Artifact]:
    item = home.table.get(home.keys.version(name, LATEST))
    found = [Artifact.from_item(item)] if item else []
    return [row for row in found if include_deleted or not row.is_deleted]


def require_artifact(home: Home, name: str) -> None:
    """Raises ``ArtifactNotFound`` when nothing was ever put or published under a name."""
    check_name(name)
    missing = _not_found(home, name, None)
    if isinstance(missing, ArtifactNotFound):
        raise missing


def _not_found(home: Home, name: str, version: int | str | None) -> NotFound:
    """The most telling error for a version that is not there."""
    state = home.table.get(home.keys.state(name)) or {}
    number = parse_version(version)
    last = state.get("last_version")
    if not state.get("listed"):
        rows = home.table.query(Query(home.keys.versions(name), limit=1)).items
        if not rows:
            return ArtifactNotFound(f"there is no artifact {name!r}: list the names to see all")
    if number is None:
        return VersionNotFound(f"{name!r} has no LATEST: put content, or name a version")
    if isinstance(last, int) and number <= last:
        return VersionNotFound(f"version {number} of {name!r} was purged")
    known = f"the newest is {last!r}" if last else "nothing was published yet"
    return VersionNotFound(f"{name!r} has no version {number}: {known}")


# --- writes --------------------------------------------------------------------------------------


def _deletion(home: Home, found: Artifact, *, deleted: bool) -> Patch:
    return Patch(
        home.keys.version(found.name, found.version),
        Update(set={"is_deleted": deleted, "update_at": times.to_text(home.now)}),
        unchanged("sha256", found.sha256) & Attr("is_deleted").eq(not deleted),
    )


def _no_alias_since(home: Home, name: str, state: Item) -> Check:
    return Check(home.keys.state(name), unchanged("alias_changes", state.get("alias_changes")))


def _removal(home: Home, found: Artifact) -> list[TransactWrite]:
    # No alias can point at a deleted version, and none can be made to.
    still = unchanged("sha256", found.sha256) & Attr("is_deleted").eq(True)
    writes: list[TransactWrite] = [Delete(home.keys.version(found.name, found.version), still)]
    if found.is_counted:
        writes.append(blobs.release(home, str(found.sha256)))
        if found.version != LATEST:
            digest = home.keys.digest(found.name, str(found.sha256))
            writes.append(Delete(digest, Attr("version").eq(found.sk)))
    elif found.version != LATEST:
        writes.append(_counting(home, found))
    return writes


def _counting(home: Home, found: Artifact) -> TransactWrite:
    """Count a number that a program other than this one has used."""
    key = home.keys.state(found.name)
    last = (home.table.get(key) or {}).get("last_version")
    highest = max(highest_number(home, found.name), last if isinstance(last, int) else 0)
    return Patch(key, Update(set={"last_version": highest}), unchanged("last_version", last))


def highest_number(home: Home, name: str) -> int:
    """The highest number among the versions of an artifact, 0 if there is none."""
    query = Query(home.keys.versions(name), where=NUMBERED, descending=True, limit=1)
    highest = home.table.query(query).items
    return parse_version(highest[0]["sk"]) or 0 if highest else 0


def _unlisting(home: Home, name: str, state: Item) -> list[TransactWrite]:
    """Take the name out of the listing, unless something was put or published meanwhile."""
    as_read = unchanged("last_version", state.get("last_version"))
    return [
        Patch(home.keys.state(name), Update(set={"listed": False}), as_read),
        Check(home.keys.version(name, LATEST), ABSENT),
        Delete(home.keys.listed(name)),
    ]
