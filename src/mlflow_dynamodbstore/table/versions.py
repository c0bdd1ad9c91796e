"""Versions of the form of items, so that no release has to migrate a table.

A family is the items in one kind of partition whose sort keys begin with the same word: ``EXP/T``
is a trace and everything below it. When the form of a family changes, its version goes up by one,
and an *upgrade* turns an item of the version before into one of the new version.

- An item without the attribute ``v`` has version 1, so that small items stay small.
- An item is upgraded when it is read, so the layers above know only the newest form.
- Writing an upgraded item stores its new form. An update that does not read the item keeps its
  version, so an upgrade must accept attributes that are in the new form already.
- An item of a version that this release does not know is refused: a guess could destroy it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mlflow_dynamodbstore.table.errors import NewerItem
from mlflow_dynamodbstore.table.values import Item

VERSION = "v"

Upgrade = Callable[[Item], Item]
"""Turns an item of one version into one of the next; returns the same object if nothing changes.

It adds and changes attributes, and removes none.
"""


class Upgraded(dict[str, Any]):
    """An item that was read in an older form; ``stored`` is what the table still holds."""

    __slots__ = ("stored",)

    def __init__(self, item: Item, stored: Item):
        super().__init__(item)
        self.stored = stored


def as_stored(item: Item) -> Item:
    """The item as the table holds it, for conditions to compare with."""
    return item.stored if isinstance(item, Upgraded) else item


def upgrade_of(item: Item) -> Item:
    """The attributes that an update must set too, to leave an item in its new form."""
    if not isinstance(item, Upgraded):
        return {}
    stored = item.stored
    return {n: value for n, value in item.items() if n not in stored or stored[n] != value}


def family_of(pk: str, sk: str) -> str:
    """The family of an item, by its key."""
    return f"{pk.partition('#')[0]}/{sk.partition('#')[0]}"


class Versions:
    """The versions of a table's families; a family that is not named has version 1."""

    def __init__(self, current: Mapping[str, int] | None = None):
        self._current = dict(current or {})
        self._upgrades: dict[tuple[str, int], Upgrade] = {}
        self._changed = tuple(f"{family.partition('/')[2]}#" for family in self._current)

    def current(self, family: str) -> int:
        """The version that this release writes."""
        return self._current.get(family, 1)

    def all(self) -> dict[str, int]:
        """The versions that this release writes, of the families that have changed."""
        return dict(self._current)

    def upgrades(self, family: str, version: int) -> Callable[[Upgrade], Upgrade]:
        """A decorator for a function that upgrades a family's items from a version to the next."""

        def register(upgrade: Upgrade) -> Upgrade:
            self._upgrades[family, version] = upgrade
            return upgrade

        return register

    def read(self, pk: str, sk: str, item: Item) -> Item:
        """A whole item in the form that this release writes. Raises ``NewerItem``."""
        version = item.get(VERSION, 1)
        if version == 1 and not sk.startswith(self._changed):
            return item  # nearly all of them
        family = family_of(pk, sk)
        newest = self._current.get(family, 1)
        if version == newest:
            return item
        if version > newest:
            raise NewerItem(
                f"the item {sk} in {pk} has version {version}, but this release of "
                f"mlflow-dynamodbstore knows versions up to {newest}: upgrade to the release that "
                "the other writers of this table use"
            )
        return self._upgraded(family, version, newest, item)

    def _upgraded(self, family: str, version: int, newest: int, item: Item) -> Item:
        after = item
        for number in range(version, newest):
            upgrade = self._upgrades.get((family, number))
            if upgrade is None:
                return item  # upkeep, which looks only at keys, registers no upgrades
            after = upgrade(after)
        return item if after is item else Upgraded({**after, VERSION: newest}, item)
