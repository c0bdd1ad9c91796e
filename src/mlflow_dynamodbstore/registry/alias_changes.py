"""The recorded changes of aliases.

META is written with every change, and carries the last few changes of aliases. When there are too
many, they become items, one for each alias.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from mlflow.utils.credentials import read_mlflow_creds

from mlflow_dynamodbstore.keys import registry as registry_keys
from mlflow_dynamodbstore.keys.encoding import is_cut
from mlflow_dynamodbstore.mlflow_compat.registry import get_user
from mlflow_dynamodbstore.registry.items import (
    ALIAS,
    ALIAS_NAME,
    CHANGE,
    RegisteredModelPlace,
    Target,
)
from mlflow_dynamodbstore.registry.records import Model
from mlflow_dynamodbstore.shared.names.revisions import Change
from mlflow_dynamodbstore.table.contract import Delete, Put, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key, Value

CHANGE_DIGITS = 12
MOST_RECENT = 4
"""How many changes META carries, where they cost nothing."""


@dataclass(frozen=True)
class AliasChange:
    """A recorded change of an alias; ``before`` or ``after`` is None where there is no alias.

    ``change_id`` counts the changes of the model, so it tells the order of two changes even where
    the clocks of their authors differ.
    """

    change_id: str
    alias: str
    timestamp: int
    user: str | None
    before: Target | None
    after: Target | None

    def stored(self) -> Value:
        """All but the id and the alias, for the table."""
        ends = [None if end is None else end.stored() for end in (self.before, self.after)]
        return [self.timestamp, self.user, *ends]

    @classmethod
    def of(cls, change_id: str, alias: str, stored: Value) -> AliasChange:
        """A change as the table has it."""
        timestamp, user, before, after = stored
        return cls(change_id, alias, timestamp, user, _target(before), _target(after))


def redirect(model: Model, alias: str, after: Target | None, change: Change, now: int) -> None:
    """Make an alias lead somewhere else, or nowhere, as part of a change."""
    place, before = model.place, model.aliases.get(alias)
    if after is None:
        change.remove.append(ALIAS + alias)
        change.writes.append(Delete(Key(place.pk, registry_keys.model_alias(alias))))
    else:
        change.set[ALIAS + alias] = after.stored()
        change.writes.append(Put(alias_item(place, alias, after)))
    made = AliasChange(
        f"{model.revision + 1:0{CHANGE_DIGITS}d}", alias, now, current_user(), before, after
    )
    if sum(name.startswith(CHANGE) for name in change.set) >= MOST_RECENT:
        change.writes.append(Put(_history_item(place, [made])))
        return
    change.set[f"{CHANGE}{model.revision + 1}:{alias}"] = made.stored()
    _make_room_for_changes(model, change)


def _make_room_for_changes(model: Model, change: Change) -> None:
    """Move the changes that META has to items when there are too many."""
    names = [CHANGE + name for name in model.recent_changes]
    new = sum(name.startswith(CHANGE) for name in change.set)
    if not names or len(names) + new <= MOST_RECENT or names[0] in change.remove:
        return
    change.remove += names
    by_alias: dict[str, list[AliasChange]] = {}
    for made in recent_changes(model):
        by_alias.setdefault(made.alias, []).append(made)
    change.writes += [Put(_history_item(model.place, some)) for some in by_alias.values()]


def forget_version(model: Model, number: int, change: Change, now: int) -> None:
    """Redirect the aliases that lead to a version which is being deleted."""
    for alias, target in model.aliases.items():
        if target.version == number:
            redirect(model, alias, None, change, now)
        elif target.secondary == number:
            redirect(model, alias, Target(target.version), change, now)


def recorded_changes(table: Table, model: Model, alias: str | None) -> list[AliasChange]:
    """The changes of one alias, or of all, the newest first."""
    query = Query(model.place.pk, where=registry_keys.model_alias_changes(alias).on())
    older = (
        AliasChange.of(change_id, item["alias"], stored)
        for item in table.items(query)
        for change_id, stored in item["changes"]
    )
    recent = (made for made in recent_changes(model) if alias in (None, made.alias))
    # A change that META had when it was read may have become an item since.
    found = {(made.change_id, made.alias): made for made in (*recent, *older)}
    return [found[which] for which in sorted(found, reverse=True)]


def recent_changes(model: Model) -> Iterator[AliasChange]:
    """The changes that META has, in no particular order."""
    for name, stored in model.recent_changes.items():
        revision, _, alias = name.partition(":")
        yield AliasChange.of(revision.zfill(CHANGE_DIGITS), alias, stored)


def _history_item(place: RegisteredModelPlace, changes: list[AliasChange]) -> Item:
    """Changes of one alias as an item."""
    first = changes[0]
    return {
        "PK": place.pk,
        "SK": registry_keys.model_alias_change(first.alias, first.timestamp, first.change_id),
        "alias": first.alias,
        "changes": [[made.change_id, made.stored()] for made in changes],
    }


def _target(stored: Value) -> Target | None:
    return None if stored is None else Target.of(stored)


def alias_item(place: RegisteredModelPlace, alias: str, target: Target) -> Item:
    """The item of an alias."""
    sk = registry_keys.model_alias(alias)
    item: Item = {"PK": place.pk, "SK": sk, "version": target.version, **place.alias_index(alias)}
    if is_cut(sk):
        item[ALIAS_NAME] = alias
    if target.secondary is not None:
        item.update(secondary=target.secondary, weight=target.weight)
    return item


def current_user() -> str | None:
    """The user of the request that is being served; outside a server, the user of this process.

    In a server without authentication nobody is: the user of its process did not ask for anything.
    """
    flask = sys.modules.get("flask")  # loaded in servers only
    if flask is not None and flask.has_request_context():
        authorization = flask.request.authorization
        return None if authorization is None else authorization.username
    user: str = read_mlflow_creds().username or get_user()
    return user
