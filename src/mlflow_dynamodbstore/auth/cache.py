"""Answers to permission checks, remembered for a moment.

Any write made through :class:`WatchedTable` empties the memory of this process, so a change holds
here as soon as its call returns. Other processes follow when their answers have grown old.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import TypeVar, cast
from weakref import WeakKeyDictionary

from boto3.dynamodb.conditions import ConditionBase

from mlflow_dynamodbstore.table.contract import Query, Returns, TransactWrite, Write
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

SECONDS = 2.0
SIZE = 10_000

T = TypeVar("T")
Question = tuple[object, ...]

_fresh: ContextVar[bool] = ContextVar("fresh", default=False)


class Recent:
    """At most ``size`` answers, each at most ``seconds`` old."""

    def __init__(
        self,
        seconds: float = SECONDS,
        size: int = SIZE,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.seconds = seconds
        self._size = size
        self._clock = clock
        self._answers: OrderedDict[Question, tuple[float, object]] = OrderedDict()
        self._generation = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._answers)

    def answer(
        self, question: Question, read: Callable[[], T], keep: Callable[[T], bool] | None = None
    ) -> T:
        """The remembered answer, or what ``read`` gives. Callers do not change what they get.

        With ``keep`` only some answers are remembered.
        """
        now = self._clock()
        with self._lock:
            known = self._answers.get(question)
            generation = self._generation
        if known is not None and now < known[0] and not _fresh.get():
            return cast("T", known[1])
        answer = read()
        if keep is not None and not keep(answer):
            return answer
        with self._lock:
            # What was read before a change was made is not to be remembered after it.
            if generation == self._generation:
                self._answers[question] = (now + self.seconds, answer)
                self._answers.move_to_end(question)
                while len(self._answers) > self._size:
                    self._answers.popitem(last=False)
        return answer

    def forget(self) -> None:
        """Remember nothing, not even what is being read right now."""
        with self._lock:
            self._generation += 1
            self._answers.clear()


@contextmanager
def fresh_answers() -> Iterator[None]:
    """Let every answer within be read anew."""
    token = _fresh.set(True)
    try:
        yield
    finally:
        _fresh.reset(token)


_memories: WeakKeyDictionary[Table, Recent] = WeakKeyDictionary()
_memories_lock = Lock()


def memory_of(table: Table) -> Recent:
    """The one memory that all auth stores of a table share in this process."""
    with _memories_lock:
        return _memories.setdefault(table, Recent())


class WatchedTable:
    """A table whose writes empty a memory, whatever became of them."""

    def __init__(self, table: Table, memory: Recent):
        self._table = table
        self._memory = memory

    def get(self, key: Key) -> Item | None:
        return self._table.get(key)

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Item]:
        return self._table.get_many(keys)

    def items(self, query: Query) -> Iterator[Item]:
        return self._table.items(query)

    def key_of(self, item: Item) -> Key:
        return self._table.schema.key_of(item)

    def put(self, item: Item) -> None:
        with self._forgetting():
            self._table.put(item)

    def update(
        self,
        key: Key,
        update: Update,
        *,
        condition: ConditionBase | None = None,
        returns: Returns = "none",
    ) -> Item | None:
        with self._forgetting():
            return self._table.update(key, update, condition=condition, returns=returns)

    def write(self, writes: Sequence[Write]) -> None:
        with self._forgetting():
            self._table.write(writes)

    def transact(self, writes: Sequence[TransactWrite]) -> None:
        with self._forgetting():
            self._table.transact(writes)

    @contextmanager
    def _forgetting(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._memory.forget()
