"""The numbers that the experiments, users and roles of a source get in a table.

Two databases both number them from 1. A table keeps, for each source, which number became which:
an import that is repeated finds what it wrote, even under a name that was changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Key


class Numbers:
    """The new numbers of one kind of entity of one source, by the old ones."""

    def __init__(
        self,
        table: Table,
        source: str,
        sequence: str,
        key_of: Callable[[str], Key] | None = None,
    ):
        self.table = table
        self._sequence = sequence
        self._key_of = key_of
        self._source = sha256(source.encode()).hexdigest()[:16]
        self._known: dict[str, str] | None = None

    def known(self) -> dict[str, str]:
        """The new numbers that have been given, by the old ones."""
        if self._known is None:
            within = access_keys.new_numbers(self._sequence, self._source)
            found = self.table.items(Query(access_keys.CONFIG_PK, where=within.on()))
            self._known = {
                access_keys.old_number_of(str(item["SK"])): str(item["number"]) for item in found
            }
        return self._known

    def give(self, olds: Sequence[str], taken: Mapping[str, str]) -> None:
        """Give numbers to those that have none: a number that is ``taken`` for it, or a new one."""
        known = self.known()
        for old in olds:
            if old not in known:
                known[old] = self._noted(old, taken.get(old) or self._next())

    def _noted(self, old: str, new: str) -> str:
        """Note a new number before it is used; another import of this source may be faster."""
        key = access_keys.new_number_key(self._sequence, self._source, old)
        try:
            self.table.put({"PK": key.pk, "SK": key.sk, "number": new}, condition=ABSENT)
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
