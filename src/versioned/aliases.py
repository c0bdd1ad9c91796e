"""Aliases: every change is compare-and-set, checks its targets, and is recorded.

A change is one transaction: the alias as it should be, if it still is at the revision that was
read; a new row of its history; checks that its versions exist and are not deleted; and the count of
alias changes of the artifact, by which a deletion notices an alias that came in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from boto3.dynamodb.conditions import Attr, ConditionBase

from mlflow_dynamodbstore.table.contract import Check, Delete, Patch, Put, Query, TransactWrite
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item
from versioned import times
from versioned.errors import (
    AliasChanged,
    AliasNotFound,
    Conflict,
    NoCanary,
    RevisionNotFound,
    VersionDeleted,
)
from versioned.home import ABSENT, Home, unchanged
from versioned.keys import changes_of, decode_version_sk, encode_version_sk
from versioned.listing import DEFAULT_LIMIT, Page, check_limit, read_page
from versioned.names import LATEST, check_name
from versioned.rows import Alias, Artifact
from versioned.versions import show


@dataclass(frozen=True)
class AliasState:
    """Where an alias points; versions are as in ``Alias.to_dict``."""

    version: str
    secondary_version: str | None = None
    secondary_version_weight: int | None = None

    def __str__(self) -> str:
        if self.secondary_version is None:
            return self.version
        weight = self.secondary_version_weight
        return f"{self.version}, {weight} % to {self.secondary_version}"


@dataclass(frozen=True)
class AliasChange:
    """One row of the history of an alias. ``before`` or ``after`` is None where there was none."""

    name: str
    alias: str
    revision: int
    action: str
    by: str
    at: datetime
    reason: str | None
    before: AliasState | None
    after: AliasState | None


@dataclass(frozen=True)
class Note:
    """What is recorded with a change: what was done, by whom and why, and what was expected."""

    action: str
    by: str | None = None
    reason: str | None = None
    expected_revision: int | None = None


Decide = Callable[["AliasState | None"], "AliasState | None"]


# --- reading -------------------------------------------------------------------------------------


def get_alias(home: Home, name: str, alias: str) -> Alias:
    """An alias. Raises ``AliasNotFound``."""
    found = _current(home, name, alias)
    if found is None:
        raise AliasNotFound(f"{name!r} has no alias {alias!r}: list its aliases to see all")
    return found


def list_aliases(
    home: Home, name: str, *, limit: int = DEFAULT_LIMIT, cursor: str | None = None
) -> Page[Alias]:
    """The aliases of an artifact, by name."""
    query = Query(home.keys.aliases(name))
    return read_page(home, query, check_limit(limit), cursor, Alias.from_item)


def history(
    home: Home, name: str, alias: str, *, limit: int = DEFAULT_LIMIT, cursor: str | None = None
) -> Page[AliasChange]:
    """The changes of an alias, the newest first; those of a deleted alias, too."""
    check_name(name)
    check_name(alias, "an alias")
    query = Query(home.keys.history(name), where=changes_of(alias), descending=True)
    return read_page(home, query, check_limit(limit), cursor, _change_from)


# --- changing ------------------------------------------------------------------------------------


def put_alias(
    home: Home,
    name: str,
    alias: str,
    version: int | str | None,
    secondary_version: int | str | None,
    weight: int | None,
    note: Note,
) -> Alias:
    """Let an alias point somewhere, whether it exists or not."""
    wanted = _state_of(Alias.new(name, alias, version, secondary_version, weight))
    return _existing(_change(home, name, alias, lambda _before: wanted, note))


def delete_alias(home: Home, name: str, alias: str, note: Note) -> None:
    """Remove an alias; its history stays. Raises ``AliasNotFound``."""

    def decide(before: AliasState | None) -> None:
        _must_exist(name, alias, before)

    _change(home, name, alias, decide, note)


def canary(
    home: Home, name: str, alias: str, version: int | str | None, weight: int, note: Note
) -> Alias:
    """Give a part of the keys another version; the rest keeps the one it has."""

    def decide(before: AliasState | None) -> AliasState:
        primary = _must_exist(name, alias, before).version
        return _state_of(Alias.new(name, alias, primary, version or LATEST, weight))

    return _existing(_change(home, name, alias, decide, note))


def promote(home: Home, name: str, alias: str, note: Note) -> Alias:
    """Give all keys the secondary version. Raises ``NoCanary``."""

    def decide(before: AliasState | None) -> AliasState:
        return AliasState(_canary_of(name, alias, before))

    return _existing(_change(home, name, alias, decide, note))


def abort(home: Home, name: str, alias: str, note: Note) -> Alias:
    """Give all keys the primary version again. Raises ``NoCanary``."""

    def decide(before: AliasState | None) -> AliasState:
        _canary_of(name, alias, before)
        return AliasState(_must_exist(name, alias, before).version)

    return _existing(_change(home, name, alias, decide, note))


def rollback(home: Home, name: str, alias: str, revision: int | None, note: Note) -> Alias | None:
    """Go back to the state after a revision, by default to the one before the last change.

    Returns None when that means that there is no alias.
    """
    check_name(name)
    check_name(alias, "an alias")
    if revision is not None:
        return _change(home, name, alias, lambda _: _after(home, name, alias, revision), note)

    def decide(_before: AliasState | None) -> AliasState:
        last = next(iter(history(home, name, alias, limit=1)), None)
        if last is None or last.before is None:
            raise RevisionNotFound(
                f"alias {alias!r} of {name!r} has no state before its last change to go back to"
            )
        return last.before

    return _change(home, name, alias, decide, note)


# --- how a change is made ------------------------------------------------------------------------


def _change(home: Home, name: str, alias: str, decide: Decide, note: Note) -> Alias | None:
    check_name(name)
    check_name(alias, "an alias")
    for _ in home.attempts():
        current = _current(home, name, alias)
        _expect(name, alias, current, note.expected_revision)
        before = _state_of(current) if current else None
        after = decide(before)
        if after == before:
            return current
        revision = (current.revision if current else _last_revision(home, name, alias)) + 1
        row = _row(home, name, alias, after, revision, note) if after else None
        record = AliasChange(
            name, alias, revision, note.action, note.by or home.actor, home.now, note.reason,
            before, after,
        )  # fmt: skip
        if home.changed(_writes(home, record, current, row)) is None:
            return row
    raise AssertionError("attempts end by raising")


def _writes(
    home: Home, record: AliasChange, current: Alias | None, row: Alias | None
) -> list[TransactWrite]:
    key = home.keys.alias(record.name, record.alias)
    as_read = _as_read(current) if current else ABSENT
    return [
        Put(row.to_item(), as_read) if row else Delete(key, as_read),
        Put(_item_of(home, record), ABSENT),
        Patch(home.keys.state(record.name), Update(add={"alias_changes": 1})),
        *([_target_check(home, row, sk) for sk in row.points_at] if row else ()),
    ]


def _as_read(row: Alias) -> ConditionBase:
    """Holds while an alias is as it was read. PynamoDB's models leave the revision as it is."""
    condition = unchanged("revision", row.revision or None)
    for name in ("version", "secondary_version", "secondary_version_weight"):
        condition &= unchanged(name, getattr(row, name))
    return condition


def _target_check(home: Home, row: Alias, sk: str) -> Check:
    """A version must be there and not deleted when the alias comes to point at it."""
    condition: ConditionBase = Attr("is_deleted").eq(False)
    if sk in row.targets:
        condition &= unchanged("sha256", row.targets[sk].get("sha256"))
    return Check(home.keys.version(row.name, sk), condition)


def _row(home: Home, name: str, alias: str, state: AliasState, revision: int, note: Note) -> Alias:
    row = Alias.new(
        name, alias, state.version, state.secondary_version, state.secondary_version_weight
    )
    row.pk = home.keys.aliases(name)
    row.revision, row.update_at = revision, home.now
    row.by, row.reason = note.by or home.actor, note.reason
    for sk in row.points_at:
        target = _target(home, name, alias, sk)
        if sk != LATEST:  # LATEST changes; what the others say does not
            row.targets[sk] = _snapshot(target)
    return row


def _target(home: Home, name: str, alias: str, sk: str) -> Artifact:
    try:
        return show(home, name, sk)
    except VersionDeleted as error:
        raise VersionDeleted(
            f"{alias!r} cannot point at version {decode_version_sk(sk)} of {name!r}, which is "
            "deleted: undelete it first"
        ) from error


def _snapshot(target: Artifact) -> Item:
    item = target.to_item()
    return {name: value for name, value in item.items() if name not in ("pk", "sk")}


def _expect(name: str, alias: str, current: Alias | None, expected: int | None) -> None:
    actual = current.revision if current else 0
    if expected is not None and expected != actual:
        is_at = f"is at revision {actual}" if current else "does not exist (revision 0)"
        raise AliasChanged(
            f"alias {alias!r} of {name!r} {is_at}, not at {expected}: somebody else has changed it",
            actual,
        )


def _current(home: Home, name: str, alias: str) -> Alias | None:
    check_name(name)
    item = home.table.get(home.keys.alias(name, check_name(alias, "an alias")))
    return Alias.from_item(item) if item else None


def _last_revision(home: Home, name: str, alias: str) -> int:
    """The last revision of an alias that does not exist now; numbers go on after a deletion."""
    last = next(iter(history(home, name, alias, limit=1)), None)
    return last.revision if last else 0


def _after(home: Home, name: str, alias: str, revision: int) -> AliasState | None:
    item = home.table.get(home.keys.change(name, alias, revision)) if revision > 0 else None
    if item is None:
        raise RevisionNotFound(
            f"alias {alias!r} of {name!r} has no revision {revision}: look at its history"
        )
    return _change_from(item).after


def _must_exist(name: str, alias: str, before: AliasState | None) -> AliasState:
    if before is None:
        raise AliasNotFound(f"{name!r} has no alias {alias!r}: put it first")
    return before


def _canary_of(name: str, alias: str, before: AliasState | None) -> str:
    secondary = _must_exist(name, alias, before).secondary_version
    if secondary is None:
        raise NoCanary(f"alias {alias!r} of {name!r} has no secondary version")
    return secondary


def _existing(row: Alias | None) -> Alias:
    if row is None:
        raise Conflict("the alias was deleted meanwhile")
    return row


# --- rows ----------------------------------------------------------------------------------------


def _state_of(row: Alias) -> AliasState:
    shown = row.to_dict()
    return AliasState(
        shown["version"], shown["secondary_version"], shown["secondary_version_weight"]
    )


def _item_of(home: Home, record: AliasChange) -> Item:
    key = home.keys.change(record.name, record.alias, record.revision)
    item: Item = {
        "pk": key.pk,
        "sk": key.sk,
        "name": record.name,
        "alias": record.alias,
        "revision": record.revision,
        "action": record.action,
        "by": record.by,
        "at": times.to_text(record.at),
    }
    if record.reason is not None:
        item["reason"] = record.reason
    for name, state in (("before", record.before), ("after", record.after)):
        if state is not None:
            item[name] = _state_item(state)
    return item


def _state_item(state: AliasState) -> Item:
    item: Item = {"version": encode_version_sk(state.version)}
    if state.secondary_version is not None:
        item["secondary_version"] = encode_version_sk(state.secondary_version)
        item["secondary_version_weight"] = state.secondary_version_weight
    return item


def _state_from(item: object) -> AliasState | None:
    if not isinstance(item, dict):
        return None
    secondary = item.get("secondary_version")
    return AliasState(
        decode_version_sk(item["version"]),
        decode_version_sk(secondary) if secondary else None,
        item.get("secondary_version_weight"),
    )


def _change_from(item: Item) -> AliasChange:
    return AliasChange(
        str(item["name"]),
        str(item["alias"]),
        cast("int", item["revision"]),
        str(item["action"]),
        str(item["by"]),
        times.from_text(item["at"]),
        cast("str | None", item.get("reason")),
        _state_from(item.get("before")),
        _state_from(item.get("after")),
    )
