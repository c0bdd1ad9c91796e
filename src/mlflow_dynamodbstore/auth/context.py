"""What every part of the auth store is given: the table, the cache of answers, the workspace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from boto3.dynamodb.conditions import ConditionBase

from mlflow_dynamodbstore.auth.cache import AnswerCache, cache_of
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.table.contract import Query, Returns, TransactWrite
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key


class CacheClearingTable:
    """A table whose writes clear a cache, whether they succeed or fail."""

    def __init__(self, table: Table, cache: AnswerCache):
        self._table = table
        self._cache = cache

    def get(self, key: Key) -> Item | None:
        return self._table.get(key)

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Item]:
        return self._table.get_many(keys)

    def items(self, query: Query) -> Iterator[Item]:
        return self._table.items(query)

    def key_of(self, item: Item) -> Key:
        return self._table.schema.key_of(item)

    def update(
        self,
        key: Key,
        update: Update,
        *,
        condition: ConditionBase | None = None,
        returns: Returns = "none",
    ) -> Item | None:
        with self._clearing():
            return self._table.update(key, update, condition=condition, returns=returns)

    def transact(self, writes: Sequence[TransactWrite]) -> None:
        with self._clearing():
            self._table.transact(writes)

    @contextmanager
    def _clearing(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._cache.clear()


@dataclass(frozen=True)
class AuthContext:
    """The surroundings that the parts of one auth store share.

    Writes to ``table`` clear the cached ``answers``; writes that change no permission may go to
    ``plain_table``.
    """

    table: CacheClearingTable
    plain_table: Table
    answers: AnswerCache

    workspace = staticmethod(Context.workspace)

    @classmethod
    def on(cls, table: Table) -> AuthContext:
        """The context of an auth store, or of a part used alone; reads and writes nothing."""
        answers = cache_of(table)
        return cls(CacheClearingTable(table, answers), table, answers)

    def next_number(self, sequence: str) -> int:
        """The next number of a sequence; none is given twice."""
        drawn = self.table.update(
            access_keys.sequence_key(sequence), Update(add={"value": 1}), returns="new"
        )
        assert drawn is not None
        return int(drawn["value"])
