"""Every change of an alias, whoever makes it, is recorded beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlflow_dynamodbstore import keys
from mlflow_dynamodbstore.registry.base import Change, RegistryBase
from mlflow_dynamodbstore.registry.items import ALIAS, Place, Target
from mlflow_dynamodbstore.registry.records import Model
from mlflow_dynamodbstore.registry.who import current_user
from mlflow_dynamodbstore.table.contract import Delete, Put, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key

CHANGE_DIGITS = 12


@dataclass(frozen=True)
class AliasChange:
    """A recorded change of an alias; None stands for an alias that is not there.

    ``change_id`` counts the changes of the model, so that it tells which of two came first
    whatever the clocks of their authors said.
    """

    change_id: str
    alias: str
    timestamp: int
    user: str | None
    before: Target | None
    after: Target | None


class AliasChanges(RegistryBase):
    """What changing an alias writes."""

    def _redirect(
        self, model: Model, alias: str, after: Target | None, change: Change, now: int
    ) -> None:
        """Let an alias lead somewhere else, or nowhere, as part of a change."""
        place, before = model.place, model.aliases.get(alias)
        if after is None:
            change.remove.append(ALIAS + alias)
            change.writes.append(Delete(Key(place.pk, keys.model_alias(alias))))
        else:
            change.set[ALIAS + alias] = after.stored()
            change.writes.append(Put(_alias_item(place, alias, after)))
        change_id = f"{model.revision + 1:0{CHANGE_DIGITS}d}"
        record: Item = {
            "PK": place.pk,
            "SK": keys.model_alias_change(alias, now, change_id),
            "alias": alias,
            "change_id": change_id,
            "at": now,
        }
        optional = {
            "by": current_user(),
            "before": None if before is None else before.stored(),
            "after": None if after is None else after.stored(),
        }
        record.update({name: value for name, value in optional.items() if value is not None})
        change.writes.append(Put(record))

    def _forget_in_aliases(self, model: Model, number: int, change: Change, now: int) -> None:
        """Let no alias lead to a version that is being deleted."""
        for alias, target in model.aliases.items():
            if target.version == number:
                self._redirect(model, alias, None, change, now)
            elif target.secondary == number:
                self._redirect(model, alias, Target(target.version), change, now)


def recorded_changes(table: Table, place: Place, alias: str | None) -> Iterator[AliasChange]:
    """The changes of one alias, or of all, in no particular order."""
    query = Query(place.pk, where=keys.model_alias_changes(alias).on())
    for item in table.items(query):
        yield AliasChange(
            change_id=item["change_id"],
            alias=item["alias"],
            timestamp=item["at"],
            user=item.get("by"),
            before=_target(item, "before"),
            after=_target(item, "after"),
        )


def _target(item: Item, name: str) -> Target | None:
    return Target.of(item[name]) if name in item else None


def _alias_item(place: Place, alias: str, target: Target) -> Item:
    item: Item = {"PK": place.pk, "SK": keys.model_alias(alias), "version": target.version}
    if target.secondary is not None:
        item.update(secondary=target.secondary, weight=target.weight)
    return item
