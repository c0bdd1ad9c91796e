"""An engine that repeats a request until it is answered or the retries are used up.

**Lost answers.** A write whose answer was lost may have been applied. A token keeps its retry from
being applied twice (:mod:`mlflow_dynamodbstore.table.write_tokens`).

**Expired items.** DynamoDB removes an expired item up to two days late. Until then a guard in every
condition refuses to touch it, and a write that was refused for it removes it and tries again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from boto3.dynamodb.conditions import Attr, ConditionBase

from mlflow_dynamodbstore.table.contract import (
    Check,
    Delete,
    Engine,
    Got,
    Outcome,
    Page,
    Patch,
    Put,
    Query,
    Scan,
    TransactWrite,
    Write,
)
from mlflow_dynamodbstore.table.errors import (
    ConditionFailed,
    RefusalCode,
    TableError,
    Throttled,
    TransactionCancelled,
    Unavailable,
)
from mlflow_dynamodbstore.table.retry import Retry
from mlflow_dynamodbstore.table.values import TTL, Item, Key, is_expired
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine
from mlflow_dynamodbstore.table.write_tokens import (
    image_of_first_try,
    repeated,
    token_for,
    with_token,
)

T = TypeVar("T")
_SCAN = "scan"  # of the whole table; no partition of ours has this name


class RetryingEngine(WrappedEngine):
    """Raises ``Throttled`` and ``Unavailable`` only once the retries are used up."""

    def __init__(self, inner: Engine, retry: Retry, clock: Callable[[], float]) -> None:
        super().__init__(inner)
        self._retry = retry
        self._pacing = retry.pacing
        self._pk = inner.schema.pk
        self._clock = clock
        self._guards = inner.capabilities.local is None  # a local engine judges expiry itself
        self._alive: tuple[int, ConditionBase] = (0, _alive_at(0))

    # --- reading --------------------------------------------------------------------------------

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        return self._read(lambda: self.inner.get(key, consistent=consistent), (key.pk,))

    def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> Got:
        """Up to 100 items; none is left unprocessed."""
        found: dict[Key, Item] = {}
        waiting = keys
        last: TableError = Throttled("the table kept leaving keys unread")
        partitions = {key.pk for key in keys}
        for _ in self._retry.attempts(partitions):
            try:
                got = self.inner.get_many(waiting, consistent=consistent)
            except (Throttled, Unavailable) as error:
                self._slow_down(error, {key.pk for key in waiting})
                last = error
                continue
            found.update(got.items)
            waiting = got.unprocessed
            left = {key.pk for key in waiting}
            self._pacing.succeeded(partitions - left)
            if not waiting:
                return Got(found)
            self._pacing.throttled(left)
        raise last

    def query(self, query: Query) -> Page:
        return self._read(lambda: self.inner.query(query), (self._read_partition(query),))

    def scan(self, scan: Scan) -> Page:
        return self._read(lambda: self.inner.scan(scan), (_SCAN,))

    def _read(self, request: Callable[[], T], partitions: Collection[str]) -> T:
        for _ in self._retry.attempts(partitions):
            try:
                answer = request()
            except (Throttled, Unavailable) as error:
                self._slow_down(error, partitions)
                last: TableError = error
            else:
                self._pacing.succeeded(partitions)
                return answer
        raise last

    def _read_partition(self, query: Query) -> str:
        """What is throttled when a query is: a global index has a throughput of its own."""
        index = None if query.index is None else self.schema.by_name.get(query.index)
        is_local = index is None or index.is_local
        return query.partition if is_local else f"{query.index}:{query.partition}"

    # --- writing --------------------------------------------------------------------------------

    def apply(self, write: Write) -> Item | None:
        """Do one write. Raises ``Unavailable`` when it is unknown whether it was applied."""
        token = token_for(write)
        guarded = with_token(self._guarded(write), token)
        lost_answer = False
        partitions = (self._partition(write),)
        for _ in self._retry.attempts(partitions):
            try:
                image = self.inner.apply(repeated(guarded, token) if lost_answer else guarded)
            except ConditionFailed as error:
                if lost_answer:
                    return image_of_first_try(write, token, error.old)
                if not self._remove_expired(error.old):
                    raise
                last: TableError = error
            except (Throttled, Unavailable) as error:
                self._slow_down(error, partitions)
                lost_answer = lost_answer or _may_be_applied(error)
                last = error
            else:
                self._pacing.succeeded(partitions)
                return image
        raise last

    def apply_many(self, writes: Sequence[Write]) -> list[Outcome]:
        """Send many writes until each is applied, refused or failed.

        When the retries are used up, the others are ``unprocessed`` or ``uncertain``.
        """
        tokens = [token_for(write) for write in writes]
        guarded = [with_token(self._guarded(w), t) for w, t in zip(writes, tokens, strict=True)]
        outcomes: list[Outcome | None] = [None] * len(writes)
        lost: set[int] = set()
        waiting = list(range(len(writes)))
        cause: Exception | None = None
        partitions = {self._partition(write) for write in writes}
        for _ in self._retry.attempts(partitions):
            sent = [repeated(guarded[n], tokens[n]) if n in lost else guarded[n] for n in waiting]
            try:
                results = self.inner.apply_many(sent)
            except (Throttled, Unavailable) as error:
                self._slow_down(error, partitions)
                cause = error
                if _may_be_applied(error):
                    lost.update(waiting)
                continue
            for n, result in zip(waiting, results, strict=True):
                outcomes[n] = self._final(writes[n], tokens[n], result, n in lost)
                if result.status == "uncertain":
                    lost.add(n)
                cause = result.error or cause
            left = {
                self._partition(writes[n])
                for n, result in zip(waiting, results, strict=True)
                if result.status == "unprocessed"
            }
            self._pacing.succeeded(partitions - left)
            self._pacing.throttled(left)
            waiting = [n for n in waiting if outcomes[n] is None]
            if not waiting:
                break
            partitions.intersection_update(self._partition(writes[n]) for n in waiting)
        return [
            outcome or Outcome("uncertain" if n in lost else "unprocessed", error=cause)
            for n, outcome in enumerate(outcomes)
        ]

    def _final(
        self, write: Write, token: str | None, result: Outcome, lost_answer: bool
    ) -> Outcome | None:
        """The final outcome of one write of many, or None when it must be sent again."""
        if result.status == "failed":
            return result
        if result.status not in ("applied", "refused"):
            return None
        image = result.image
        if result.status == "refused":
            if not lost_answer:
                return None if self._remove_expired(image) else Outcome("refused", image)
            try:
                image = image_of_first_try(write, token, image)
            except Unavailable as error:
                return Outcome("uncertain", error=error)
        return Outcome("applied", None if self._is_expired(image) else image)

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        """Do up to 100 writes and checks, all or none."""
        guarded = [self._guarded(write) for write in writes]
        partitions = {self._partition(write) for write in writes}
        for _ in self._retry.attempts(partitions):
            try:
                self.inner.transact(guarded, token)
            except TransactionCancelled as error:
                removed = [r is not None and self._remove_expired(r.old) for r in error.reasons]
                if any(removed):
                    guarded = [self._guarded(write) for write in writes]
                    token = uuid.uuid4().hex
                elif not error.only_conflicts:
                    raise
                else:
                    self._pacing.throttled(self._throttled_partitions(writes, error))
                last: TableError = error
            except (Throttled, Unavailable) as error:
                self._slow_down(error, partitions)
                last = error
            else:
                self._pacing.succeeded(partitions)
                return
        raise last

    # --- expiry ---------------------------------------------------------------------------------

    def _guarded(self, write: TransactWrite) -> TransactWrite:
        """The write with a guard that refuses an expired item."""
        if not self._guards or (write.condition is None and not isinstance(write, Patch)):
            return write
        now = int(self._clock())
        if self._alive[0] != now:
            self._alive = (now, _alive_at(now))
        alive = self._alive[1]
        return _conditioned(write, alive if write.condition is None else write.condition & alive)

    def _is_expired(self, item: Item | None) -> bool:
        return item is not None and is_expired(item, self._clock())

    def _remove_expired(self, item: Item | None) -> bool:
        """Remove an item that refused a write if it has expired, and say whether it has."""
        if item is None or not self._is_expired(item):
            return False
        key = self.schema.key_of(item)
        try:
            self.inner.apply(Delete(key, condition=Attr(TTL).eq(item[TTL])))
        except ConditionFailed:
            pass  # it was renewed or removed: the retry sees what is there now
        except (Throttled, Unavailable) as error:
            self._slow_down(error, (key.pk,))  # the retry of the write tries this again
        return True

    # --- pace -----------------------------------------------------------------------------------

    def _partition(self, write: TransactWrite) -> str:
        # An item without a key is for the engine to refuse.
        return str(write.item.get(self._pk)) if isinstance(write, Put) else write.key.pk

    def _throttled_partitions(
        self, writes: Sequence[TransactWrite], cancelled: TransactionCancelled
    ) -> set[str]:
        """Where a cancelled transaction was throttled; a conflict is no reason to slow down."""
        return {
            self._partition(write)
            for write, reason in zip(writes, cancelled.reasons, strict=False)
            if reason is not None and reason.code is RefusalCode.THROTTLED
        }

    def _slow_down(self, error: TableError, partitions: Collection[str]) -> None:
        if isinstance(error, Throttled):
            self._pacing.throttled(partitions)


def _may_be_applied(error: TableError) -> bool:
    return isinstance(error, Unavailable) and error.maybe_applied


def _alive_at(now: int) -> ConditionBase:
    return Attr(TTL).not_exists() | Attr(TTL).gt(now)


def _conditioned(write: TransactWrite, condition: ConditionBase) -> TransactWrite:
    """The same write under another condition; written out, since ``replace`` is slow."""
    if isinstance(write, Put):
        return Put(write.item, condition, write.returns)
    if isinstance(write, Patch):
        return Patch(write.key, write.update, condition, write.returns)
    if isinstance(write, Delete):
        return Delete(write.key, condition, write.returns)
    return Check(write.key, condition)
