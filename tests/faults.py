"""Engines that fail as the real service does, and as a process that dies."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NoReturn, TypeAlias, TypeVar

from mlflow_dynamodbstore.table.contract import (
    Delete,
    Engine,
    Got,
    Outcome,
    Page,
    Put,
    Query,
    Scan,
    TransactWrite,
    Write,
)
from mlflow_dynamodbstore.table.errors import (
    Refusal,
    RefusalCode,
    Throttled,
    TransactionCancelled,
    Unavailable,
)
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine

_T = TypeVar("_T")
When: TypeAlias = Literal["before", "during", "after"]


class FaultyEngine(WrappedEngine):
    """Injects faults at the given rates.

    - ``throttle``: the request is refused before anything happens.
    - ``partial``: a batch comes back with some of its keys or writes unprocessed.
    - ``timeout_before``, ``timeout_after``: the answer is lost, before or after the write was
      applied. The caller cannot tell which: both raise ``Unavailable(maybe_applied=True)``.
    - ``conflict``: a transaction meets another one on one of its items.
    - ``crash_after``: the process dies after that many write requests.

    ``injected`` counts the faults, so that a test can assert that there were some.
    """

    def __init__(
        self,
        inner: Engine,
        *,
        throttle: float = 0.2,
        partial: float = 0.2,
        timeout_after: float = 0.1,
        timeout_before: float = 0.0,
        conflict: float = 0.0,
        rng: random.Random | None = None,
        crash_after: int | None = None,
    ) -> None:
        super().__init__(inner if crash_after is None else CrashingEngine(inner, at=crash_after))
        self.injected: Counter[str] = Counter()
        self._throttle = throttle
        self._partial = partial
        self._timeout_after = timeout_after
        self._timeout_before = timeout_before
        self._conflict = conflict
        self._rng = rng or random.Random()

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        self._before_read()
        return self.inner.get(key, consistent=consistent)

    def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> Got:
        self._before_read()
        taken, left = self._cut(list(keys))
        got = self.inner.get_many(taken, consistent=consistent) if taken else Got()
        return Got(got.items, [*got.unprocessed, *left])

    def query(self, query: Query) -> Page:
        self._before_read()
        return self.inner.query(query)

    def scan(self, scan: Scan) -> Page:
        self._before_read()
        return self.inner.scan(scan)

    def apply(self, write: Write) -> Item | None:
        self._before_write()
        image = self.inner.apply(write)
        self._after_write()
        return image

    def apply_many(self, writes: Sequence[Write]) -> list[Outcome]:
        if self._happens("throttle", self._throttle):
            return [Outcome("unprocessed")] * len(writes)
        outcomes = [Outcome("unprocessed")] * len(writes)
        taken, _ = self._cut(list(range(len(writes))))
        sent = [n for n in taken if not self._happens("timeout_before", self._timeout_before)]
        for n in set(taken) - set(sent):
            outcomes[n] = _lost(writes[n])
        applied = self.inner.apply_many([writes[n] for n in sent]) if sent else []
        for n, outcome in zip(sent, applied, strict=True):
            lost = self._happens("timeout_after", self._timeout_after)
            outcomes[n] = _lost(writes[n]) if lost else outcome
        return outcomes

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        self._before_write()
        if self._happens("conflict", self._conflict):
            reasons: list[Refusal | None] = [None] * len(writes)
            reasons[self._rng.randrange(len(writes))] = Refusal(RefusalCode.CONFLICT, "injected")
            raise TransactionCancelled(reasons)
        self.inner.transact(writes, token)
        self._after_write()

    def _happens(self, what: str, rate: float) -> bool:
        if rate <= 0 or self._rng.random() >= rate:
            return False
        self.injected[what] += 1
        return True

    def _before_read(self) -> None:
        if self._happens("throttle", self._throttle):
            raise Throttled("injected throttling")
        if self._happens("timeout_read", self._timeout_after):
            raise Unavailable("injected timeout of a read")

    def _before_write(self) -> None:
        if self._happens("throttle", self._throttle):
            raise Throttled("injected throttling")
        if self._happens("timeout_before", self._timeout_before):
            raise Unavailable("injected timeout, not applied", maybe_applied=True)

    def _after_write(self) -> None:
        if self._happens("timeout_after", self._timeout_after):
            raise Unavailable("injected timeout, applied", maybe_applied=True)

    def _cut(self, batch: list[_T]) -> tuple[list[_T], list[_T]]:
        """The two parts of a batch: what is sent, and what comes back unprocessed."""
        if len(batch) < 2 or not self._happens("partial", self._partial):
            return batch, []
        kept = [self._rng.random() < 0.5 for _ in batch]
        return (
            [one for one, keep in zip(batch, kept, strict=True) if keep],
            [one for one, keep in zip(batch, kept, strict=True) if not keep],
        )


def _lost(write: Write) -> Outcome:
    """The outcome of a write whose answer did not arrive."""
    # An unconditional put or delete may be sent again, and engines say so.
    harmless = isinstance(write, Put | Delete) and write.condition is None
    return Outcome("unprocessed" if harmless else "uncertain")


class SimulatedCrash(BaseException):
    """The process died here. It is no ``Exception``, so that no handler survives it."""


class CrashingEngine(WrappedEngine):
    """Dies at the ``at``-th write request (counted from 1): before it, during it or after it.

    *During* applies the first half of a bulk write; for a single write or a transaction it equals
    *before*. Once dead, every call raises, since a dead process cleans nothing up. With ``at=None``
    it never dies and only counts the points at which it could.
    """

    def __init__(self, inner: Engine, *, at: int | None = None, when: When = "after") -> None:
        super().__init__(inner)
        self.writes = 0
        self.dead = False
        self._at = at
        self._when = when

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        self._check()
        return self.inner.get(key, consistent=consistent)

    def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> Got:
        self._check()
        return self.inner.get_many(keys, consistent=consistent)

    def query(self, query: Query) -> Page:
        self._check()
        return self.inner.query(query)

    def scan(self, scan: Scan) -> Page:
        self._check()
        return self.inner.scan(scan)

    def apply(self, write: Write) -> Item | None:
        dying = self._enter()
        image = self.inner.apply(write)
        self._leave(dying)
        return image

    def apply_many(self, writes: Sequence[Write]) -> list[Outcome]:
        dying = self._enter(half=writes)
        outcomes = self.inner.apply_many(writes)
        self._leave(dying)
        return outcomes

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        dying = self._enter()
        self.inner.transact(writes, token)
        self._leave(dying)

    def _check(self) -> None:
        if self.dead:
            raise SimulatedCrash("this process is dead already")

    def _enter(self, half: Sequence[Write] = ()) -> bool:
        """Count a write request. Die now if this is the one, or return that it dies afterwards."""
        self._check()
        self.writes += 1
        if self.writes == self._at and self._when != "after":
            if self._when == "during" and len(half) > 1:
                self.inner.apply_many(half[: len(half) // 2])
            self._die()
        return self.writes == self._at

    def _leave(self, dying: bool) -> None:
        if dying:
            self._die()

    def _die(self) -> NoReturn:
        self.dead = True
        raise SimulatedCrash(f"died {self._when} write request {self.writes}")
