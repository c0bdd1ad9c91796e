"""The version that an item's form has, so that no release has to migrate a table.

Items belong to families: those of one kind of partition whose sort keys begin with the same word,
such as ``EXP/T``, a trace and everything below it. When the form of a family changes, its version
goes up by one and an *upgrade* says how to turn an item of the version before into one of the new.

- An item without the attribute ``v`` is of version 1, so that small items do not grow.
- What is read is upgraded on the way, so the layers above know the newest form only.
- Who writes an upgraded item writes it in the new form. A change of single attributes that does
  not look at the item leaves its version alone; an upgrade must therefore not mind attributes that
  are new already.
- An item of a version that this release does not know is refused: to guess at it could destroy it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mlflow_dynamodbstore.table.errors import NewerItem
from mlflow_dynamodbstore.table.values import Item

VERSION = "v"

Upgrade = Callable[[Item], Item]
"""An item of one version as an item of the next; the same object when nothing has to change.

It adds attributes or gives them other values, and removes none.
"""


class Upgraded(dict[str, Any]):
    """An item that was read in an older form; ``stored`` is what the table still holds."""

    __slots__ = ("stored",)

    def __init__(self, item: Item, stored: Item):
        super().__init__(item)
        self.stored = stored


def as_stored(item: Item) -> Item:
    """The item as the table holds it: what a change of it has to be compared with."""
    return item.stored if isinstance(item, Upgraded) else item


def upgrade_of(item: Item) -> Item:
    """What a change of single attributes has to set beside, to leave an item in its new form."""
    if not isinstance(item, Upgraded):
        return {}
    stored = item.stored
    return {n: value for n, value in item.items() if n not in stored or stored[n] != value}


def family_of(pk: str, sk: str) -> str:
    """The family of an item, by its key."""
    return f"{pk.partition('#')[0]}/{sk.partition('#')[0]}"


class Versions:
    """The versions of a table's families; one that is not named has never changed."""

    def __init__(self, current: Mapping[str, int] | None = None):
        self._current = dict(current or {})
        self._upgrades: dict[tuple[str, int], Upgrade] = {}
        self._changed = tuple(f"{family.partition('/')[2]}#" for family in self._current)

    def current(self, family: str) -> int:
        """The version that is written today."""
        return self._current.get(family, 1)

    def all(self) -> dict[str, int]:
        """The versions written today of the families that have changed."""
        return dict(self._current)

    def upgrades(self, family: str, version: int) -> Callable[[Upgrade], Upgrade]:
        """Names the function that upgrades a family's items of a version to the next."""

        def register(upgrade: Upgrade) -> Upgrade:
            self._upgrades[family, version] = upgrade
            return upgrade

        return register

    def read(self, pk: str, sk: str, item: Item) -> Item:
        """A whole item as it is written today. Raises ``NewerItem``."""
        version = item.get(VERSION, 1)
        if version == 1 and not sk.startswith(self._changed):
            return item  # most items, and the reason why this costs next to nothing
        family = family_of(pk, sk)
        newest = self._current.get(family, 1)
        if version == newest:
            return item
        if version > newest:
            raise NewerItem(
                f"the item {sk} in {pk} has version {version}, and this release of "
                f"mlflow-dynamodbstore knows versions up to {newest}: upgrade it to the release "
                "that the others who write to this table use"
            )
        return self._upgraded(family, version, newest, item)

    def _upgraded(self, family: str, version: int, newest: int, item: Item) -> Item:
        after = item
        for number in range(version, newest):
            upgrade = self._upgrades.get((family, number))
            if upgrade is None:
                return item  # nothing here uses the family: upkeep, which looks at keys alone
            after = upgrade(after)
        return item if after is item else Upgraded({**after, VERSION: newest}, item)
