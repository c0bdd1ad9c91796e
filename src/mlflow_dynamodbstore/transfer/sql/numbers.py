"""The numbers that the experiments, users and roles of a source get in a table.

Two databases both number them from 1. A table keeps, for each source, which number became which:
an import that is repeated finds what it wrote, even under a name that was changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key


class Numbers:
    """The new numbers of one kind of entity of one source, by the old ones."""

    def __init__(
        self,
        table: Table,
        source: str,
        sequence: str,
        key_of: Callable[[str], Key] | None = None,
        told: Item | None = None,
    ):
        self.table = table
        self._sequence = sequence
        self._key_of = key_of
        self._source = sha256(source.encode()).hexdigest()[:16]
        self._told = told or {}
        self._known: dict[str, str] | None = None
        self._told_before: dict[str, Item] = {}
        self._stale: dict[str, str] = {}

    def known(self) -> dict[str, str]:
        """The new numbers that have been given, by the old ones."""
        if self._known is None:
            within = access_keys.new_numbers(self._sequence, self._source)
            noted = {
                access_keys.old_number_of(str(item["SK"])): item
                for item in self.table.items(Query(access_keys.CONFIG_PK, where=within.on()))
            }
            self._known = {old: str(item["number"]) for old, item in noted.items()}
            self._told_before = noted
        return self._known

    def was_told_the_same(self, old: str) -> bool:
        """Whether a number was given by an import that changed the same as this one."""
        before = self._told_before.get(old, {})
        return all(before.get(name, value) == value for name, value in self._told.items())

    def forget(self, old: str) -> None:
        """Forget a number that something else has: another source once had this address."""
        self._stale[old] = self.known().pop(old)

    def give(self, olds: Sequence[str], taken: Mapping[str, str]) -> None:
        """Give numbers to those that have none: a number that is ``taken`` for it, or a new one."""
        known = self.known()
        for old in olds:
            if old not in known:
                known[old] = self._noted(old, taken.get(old) or self._next())

    def _noted(self, old: str, new: str) -> str:
        """Note a new number before it is used; another import of this source may be faster."""
        key = access_keys.new_number_key(self._sequence, self._source, old)
        free = ABSENT
        if old in self._stale:
            free = free | Attr("number").eq(self._stale[old])
        try:
            self.table.put(
                {"PK": key.pk, "SK": key.sk, "number": new, **self._told}, condition=free
            )
        except ConditionFailed:
            noted = self.table.get(key)
            return new if noted is None else str(noted["number"])
        return new

    def _next(self) -> str:
        """A number that no entity has."""
        while True:  # without a bound: imported entities may have taken any number of these
            counter = self.table.update(
                access_keys.sequence_key(self._sequence), Update(add={"value": 1}), returns="new"
            )
            assert counter is not None
            number = str(counter["value"])
            if self._key_of is None or self.table.get(self._key_of(number)) is None:
                return number
