"""The table that everything above stands on.

Written once over an :class:`~mlflow_dynamodbstore.table.contract.Engine`, it adds what both engines
need and neither should repeat: splitting into requests, retrying, expiry, and recognising a write
whose answer was lost.

**Expiry.** An item whose ``ttl`` has come is absent: reads skip it, conditions are judged as if
it were not there. DynamoDB removes it up to two days later; until then a write that is refused
because of such an item removes it and tries again.

**Lost answers.** A request that timed out may have been applied. A write that would not survive
being repeated carries a token in the attribute ``_w``; when the retry is refused and the item
bears the token, the first try had succeeded.

**Versions.** What is read comes in the newest form of its family, whatever form it was written in
(:mod:`mlflow_dynamodbstore.table.versions`).
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from dataclasses import replace
from threading import Lock
from typing import TypeVar

from boto3.dynamodb.conditions import Attr, ConditionBase
from boto3.dynamodb.conditions import Key as KeyCondition

from mlflow_dynamodbstore.table.contract import (
    MAX_BATCH_GET,
    Check,
    Delete,
    Engine,
    IncompleteWrite,
    LocalEngine,
    Outcome,
    Page,
    Patch,
    Put,
    Query,
    Returns,
    Scan,
    TransactWrite,
    Write,
)
from mlflow_dynamodbstore.table.errors import (
    ConditionFailed,
    TableError,
    Throttled,
    TransactionCancelled,
    Unavailable,
)
from mlflow_dynamodbstore.table.retry import Retry
from mlflow_dynamodbstore.table.schema import Schema
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import TTL, Item, Key, is_expired

T = TypeVar("T")
R = TypeVar("R")

WRITE_TOKEN = "_w"  # noqa: S105 - the name of an attribute
MAX_FAN_OUT = 8
_FINAL = frozenset({"applied", "refused"})

_side_by_side: ContextVar[bool] = ContextVar("side_by_side", default=False)


class Table:
    """Get, put, update, delete, query, bulk write and transaction, with the promises above.

    Beside the errors a method names, every one may raise ``Throttled`` or ``Unavailable`` once the
    retries are used up, ``AccessDenied``, ``TableMissing`` and ``InvalidRequest``.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        clock: Callable[[], float] = time.time,
        retry: Retry | None = None,
    ):
        self.engine = engine
        self.clock = clock
        self.retry = retry or Retry()
        self._pk, self._sk = engine.schema.pk, engine.schema.sk
        self._read = engine.schema.versions.read
        self._local = engine.capabilities.local
        if self._local is not None:
            self._local.expiry_clock = clock
        self._alive: tuple[int, ConditionBase] = (0, _alive_at(0))
        self._pool: ThreadPoolExecutor | None = None
        self._pool_lock = Lock()

    @property
    def schema(self) -> Schema:
        return self.engine.schema

    def close(self) -> None:
        """Let go of threads, files and connections."""
        with self._pool_lock:
            if self._pool is not None:
                self._pool.shutdown(wait=False, cancel_futures=True)
                self._pool = None
        self.engine.close()

    # --- reading --------------------------------------------------------------------------------

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        """The item at a key, or None."""
        return self._visible(self._retrying(lambda: self.engine.get(key, consistent=consistent)))

    def get_many(self, keys: Iterable[Key], *, consistent: bool = True) -> dict[Key, Item]:
        """The items at these keys; absent ones are not in the answer. Keys may repeat."""
        wanted = list(dict.fromkeys(keys))
        chunks = [wanted[n : n + MAX_BATCH_GET] for n in range(0, len(wanted), MAX_BATCH_GET)]
        found: dict[Key, Item] = {}
        for part in self.map(lambda chunk: self._get_chunk(chunk, consistent), chunks):
            found.update(part)
        return found

    def query(self, query: Query) -> Page:
        """One page of a partition; the cursor alone tells whether there is more."""
        page = self._retrying(lambda: self.engine.query(query))
        return Page(self._visible_only(page.items, whole=self._brings_all(query)), page.cursor)

    def items(self, query: Query) -> Iterator[Item]:
        """All items of a query, page after page; ``limit`` is the size of a page."""
        while True:
            page = self.query(query)
            yield from page.items
            if page.cursor is None:
                return
            query = replace(query, cursor=page.cursor)

    def scan(self, scan: Scan) -> Page:
        """One page of the whole table. For upkeep and export only."""
        page = self._retrying(lambda: self.engine.scan(scan))
        return Page(self._visible_only(page.items, whole=True), page.cursor)

    def map(self, function: Callable[[T], R], arguments: Sequence[T]) -> list[R]:
        """Call a reading function for each argument, side by side where the engine gains by it.

        The calls see the caller's context variables, such as the active workspace. Within one of
        them another ``map`` goes one by one: workers that wait for workers could wait for ever.
        """
        waits = self.engine.capabilities.waits_on_network
        if len(arguments) < 2 or not waits or _side_by_side.get():
            return [function(argument) for argument in arguments]
        context = copy_context()
        context.run(_side_by_side.set, True)
        return list(self._executor().map(lambda a: context.copy().run(function, a), arguments))

    # --- writing one item -----------------------------------------------------------------------

    def put(
        self, item: Item, *, condition: ConditionBase | None = None, returns: Returns = "none"
    ) -> Item | None:
        """Write a whole item. Raises ``ConditionFailed``, ``ItemTooLarge``, ``CollectionFull``."""
        return self._apply(Put(item, condition, returns))

    def update(
        self,
        key: Key,
        update: Update,
        *,
        condition: ConditionBase | None = None,
        returns: Returns = "none",
    ) -> Item | None:
        """Change attributes of an item, creating it when absent. Raises as :meth:`put` does."""
        return self._apply(Patch(key, update, condition, returns))

    def delete(
        self, key: Key, *, condition: ConditionBase | None = None, returns: Returns = "none"
    ) -> Item | None:
        """Remove an item. Raises ``ConditionFailed``."""
        return self._apply(Delete(key, condition, returns))

    # --- writing many ---------------------------------------------------------------------------

    def write(self, writes: Sequence[Write], then: Sequence[Write] = ()) -> list[Outcome]:
        """Do many writes, each on its own; those of ``then`` only when all before are durable.

        Returns an outcome for each, ``applied`` or ``refused``. When one of ``writes`` is refused,
        ``then`` is not begun and has no outcomes. No key may be named twice within one of the two.
        Raises ``IncompleteWrite``, which says what was written, when the table keeps refusing.
        """
        if self._local is not None and then:
            return self._write_in_order(self._local, writes, then)
        outcomes = self._write_all(writes) if writes else []
        if then and all(outcome.status == "applied" for outcome in outcomes):
            outcomes += self._write_all(then)
        return outcomes

    def redate(self, partition: str, ranges: Sequence[tuple[str, str]], ttl: int | None) -> None:
        """Let the items of a partition in some ranges of sort keys, both ends included, expire at
        another time, or never.

        Nobody else may be changing them. Raises as :meth:`write` does.
        """
        redating = self.engine.capabilities.redating
        if redating is not None:
            redating.redate(partition, ranges, ttl)
            return
        queries = [Query(partition, KeyCondition(self._sk).between(*one)) for one in ranges]
        found = self.map(lambda query: list(self.items(query)), queries)
        bare = ({n: v for n, v in item.items() if n != TTL} for some in found for item in some)
        self.write([Put(item if ttl is None else {**item, TTL: ttl}) for item in bare])

    def transact(self, writes: Sequence[TransactWrite]) -> None:
        """Do up to 100 writes and checks on different keys, all or none.

        Raises ``TransactionCancelled`` with a reason for each operation, in order.
        """
        guarded = [self._guarded(write) for write in writes]
        token = uuid.uuid4().hex
        for attempt in self.retry.attempts():
            try:
                self.engine.transact(guarded, token)
            except TransactionCancelled as error:
                if self._remove_expired(error):
                    guarded = [self._guarded(write) for write in writes]
                    token = uuid.uuid4().hex
                elif not error.only_conflicts:
                    raise self._cleaned(error) from error.__cause__
                last: TableError = error
            except (Throttled, Unavailable) as error:
                self._note(error)
                last = error
            else:
                self._done(attempt)
                return
        raise last

    # --- how a write is made safe to repeat -----------------------------------------------------

    def _apply(self, write: Write) -> Item | None:
        if self._local is not None:
            try:
                return self._visible(self.engine.apply(write))
            except ConditionFailed as error:
                raise ConditionFailed(str(error), self._clean(error.old)) from error
        token = self._token_for(write)
        guarded = _with_token(self._guarded(write), token)
        lost_answer = False
        for attempt in self.retry.attempts():
            try:
                image = self.engine.apply(_repeated(guarded, token) if lost_answer else guarded)
            except ConditionFailed as error:
                if lost_answer:
                    return self._settle(write, token, error.old)
                if not self._is_expired(error.old):
                    raise ConditionFailed(str(error), self._clean(error.old)) from error
                self._remove(error.old)
                last: TableError = error
            except (Throttled, Unavailable) as error:
                self._note(error)
                lost_answer = lost_answer or _may_be_applied(error)
                last = error
            else:
                self._done(attempt)
                return self._visible(image)
        raise last

    def _settle(self, write: Write, token: str | None, old: Item | None) -> Item | None:
        """Decide what became of a write whose first answer was lost and whose retry was refused."""
        if isinstance(write, Delete) and old is None:
            return None
        if token is not None and old is not None and old.get(WRITE_TOKEN) == token:
            return self._visible(dict(old)) if write.returns == "new" else None
        raise Unavailable(
            "the answer to a write was lost and the item has changed since; "
            "read it again before deciding",
            maybe_applied=True,
        )

    def _write_in_order(
        self, engine: LocalEngine, writes: Sequence[Write], then: Sequence[Write]
    ) -> list[Outcome]:
        """Do writes, and others in the same request when all of them were applied."""
        outcomes = engine.apply_in_order(writes, then)
        first = self._direct(writes, outcomes[: len(writes)])
        rest = outcomes[len(writes) :]
        return first + (self._direct(then, rest) if rest else [])

    def _direct(self, writes: Sequence[Write], outcomes: Sequence[Outcome]) -> list[Outcome]:
        """The outcomes of an engine from which nothing can come but what became of each write."""
        for outcome in outcomes:
            if outcome.image is not None:
                outcome.image = self._clean(outcome.image)
        failed = next((o.error for o in outcomes if o.status == "failed"), None)
        return self._all_written(writes, outcomes, set(), failed)

    def _write_all(self, writes: Sequence[Write]) -> list[Outcome]:
        """Send many writes until each has been applied or refused."""
        if self._local is not None:
            return self._direct(writes, self.engine.apply_many(writes))
        tokens = [self._token_for(write) for write in writes]
        guarded = [_with_token(self._guarded(w), t) for w, t in zip(writes, tokens, strict=True)]
        outcomes: list[Outcome | None] = [None] * len(writes)
        lost: set[int] = set()
        waiting = list(range(len(writes)))
        cause: Exception | None = None
        for attempt in self.retry.attempts():
            sent = [_repeated(guarded[n], tokens[n]) if n in lost else guarded[n] for n in waiting]
            try:
                results = self.engine.apply_many(sent)
            except (Throttled, Unavailable) as error:
                self._note(error)
                cause = error
                if _may_be_applied(error):
                    lost.update(waiting)
                continue
            for n, result in zip(waiting, results, strict=True):
                outcomes[n] = self._judge(writes[n], tokens[n], result, n in lost)
                if result.status == "uncertain":
                    lost.add(n)
                cause = result.error or cause
            waiting = [n for n in waiting if outcomes[n] is None]
            if not waiting:
                self._done(attempt)
                break
            if any(result.status == "unprocessed" for result in results):
                self.retry.throttled()
        return self._all_written(writes, outcomes, lost, cause)

    def _judge(
        self, write: Write, token: str | None, result: Outcome, lost_answer: bool
    ) -> Outcome | None:
        """The final outcome of one write of many, or None when it must be sent again."""
        if result.status == "applied":
            return Outcome("applied", self._visible(result.image))
        if result.status == "failed":
            return result
        if result.status != "refused":
            return None
        if lost_answer:
            try:
                return Outcome("applied", self._settle(write, token, result.image))
            except Unavailable as error:
                return Outcome("uncertain", error=error)
        if self._is_expired(result.image):
            self._remove(result.image)
            return None
        return Outcome("refused", self._clean(result.image))

    def _all_written(
        self,
        writes: Sequence[Write],
        outcomes: Sequence[Outcome | None],
        lost: set[int],
        cause: Exception | None,
    ) -> list[Outcome]:
        final = [o for o in outcomes if o is not None and o.status in _FINAL]
        if len(final) == len(writes):
            return final
        written, unwritten, uncertain = [], [], []
        for n, (write, outcome) in enumerate(zip(writes, outcomes, strict=True)):
            if outcome is not None and outcome.status == "applied":
                written.append(write)
            elif (outcome is None and n in lost) or (outcome and outcome.status == "uncertain"):
                uncertain.append(write)
            else:
                unwritten.append(write)
        raise IncompleteWrite(written, unwritten, uncertain, cause) from cause

    def _token_for(self, write: Write) -> str | None:
        """A token for a write that must not be done twice, None for one that may be."""
        if isinstance(write, Delete):
            return None
        if isinstance(write, Patch) and write.condition is None and write.update.is_repeatable:
            return None
        if isinstance(write, Put) and write.condition is None:
            return None
        return secrets.token_urlsafe(6)

    # --- expiry ---------------------------------------------------------------------------------

    def _is_expired(self, item: Item | None) -> bool:
        return item is not None and is_expired(item, self.clock())

    def _visible(self, item: Item | None) -> Item | None:
        return None if item is None or self._is_expired(item) else self._clean(item)

    def _visible_only(self, items: list[Item], *, whole: bool) -> list[Item]:
        """The items that have not expired; only whole ones can be brought to a newer version."""
        now, pk, sk, read = self.clock(), self._pk, self._sk, self._read
        visible = []
        for item in items:
            if TTL in item and is_expired(item, now):
                continue
            item.pop(WRITE_TOKEN, None)
            visible.append(read(item[pk], item[sk], item) if whole else item)
        return visible

    def _brings_all(self, query: Query) -> bool:
        """Whether a query brings all attributes of what it finds."""
        if query.keys_only or query.index is None:
            return not query.keys_only
        index = self.schema.by_name[query.index]
        return index.is_local or index.projection == "ALL"

    def _clean(self, item: Item | None) -> Item | None:
        """An item as the layers above know it."""
        if item is None:
            return None
        item.pop(WRITE_TOKEN, None)
        return self._read(item[self._pk], item[self._sk], item)

    def _cleaned(self, error: TransactionCancelled) -> TransactionCancelled:
        for reason in error.reasons:
            if reason is not None:
                reason.old = self._clean(reason.old)
        return error

    def _guarded(self, write: TransactWrite) -> TransactWrite:
        """Let a condition, and any change of an item, see only what has not expired."""
        if self._local is not None or (write.condition is None and not isinstance(write, Patch)):
            return write
        now = int(self.clock())
        if self._alive[0] != now:
            self._alive = (now, _alive_at(now))
        alive = self._alive[1]
        return _conditioned(write, alive if write.condition is None else write.condition & alive)

    def _remove(self, expired: Item | None) -> None:
        """Take away an expired item that stands in the way, unless it has changed meanwhile."""
        if expired is None:
            return
        key = self.schema.key_of(expired)
        try:
            self.engine.apply(Delete(key, condition=Attr(TTL).eq(expired[TTL])))
        except ConditionFailed:
            return  # somebody renewed or removed it: the retry will see what is there now
        except (Throttled, Unavailable) as error:
            self._note(error)  # the retry of the write itself comes back here

    def _remove_expired(self, error: TransactionCancelled) -> bool:
        """Remove the expired items among the reasons of a cancelled transaction, if any."""
        expired = [r.old for r in error.reasons if r is not None and self._is_expired(r.old)]
        for item in expired:
            self._remove(item)
        return bool(expired)

    # --- plumbing -------------------------------------------------------------------------------

    def _get_chunk(self, keys: list[Key], consistent: bool) -> dict[Key, Item]:
        found: dict[Key, Item] = {}
        waiting = keys
        last: TableError = Throttled("the table kept leaving keys unread")
        for attempt in self.retry.attempts():
            try:
                got = self.engine.get_many(waiting, consistent=consistent)
            except (Throttled, Unavailable) as error:
                self._note(error)
                last = error
                continue
            for key, item in got.items.items():
                if (visible := self._visible(item)) is not None:
                    found[key] = visible
            waiting = got.unprocessed
            if not waiting:
                self._done(attempt)
                return found
            self.retry.throttled()
        raise last

    def _retrying(self, request: Callable[[], T]) -> T:
        if self._local is not None:
            return request()
        for attempt in self.retry.attempts():
            try:
                answer = request()
            except (Throttled, Unavailable) as error:
                self._note(error)
                last: TableError = error
            else:
                self._done(attempt)
                return answer
        raise last

    def _note(self, error: TableError) -> None:
        if isinstance(error, Throttled):
            self.retry.throttled()

    def _done(self, attempt: int) -> None:
        if attempt == 0:
            self.retry.succeeded()

    def _executor(self) -> ThreadPoolExecutor:
        with self._pool_lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(MAX_FAN_OUT, thread_name_prefix="table-read")
            return self._pool


def _conditioned(write: TransactWrite, condition: ConditionBase) -> TransactWrite:
    """The same write under another condition; built directly, as this is on every hot path."""
    if isinstance(write, Put):
        return Put(write.item, condition, write.returns)
    if isinstance(write, Patch):
        return Patch(write.key, write.update, condition, write.returns)
    if isinstance(write, Delete):
        return Delete(write.key, condition, write.returns)
    return Check(write.key, condition)


def _may_be_applied(error: TableError) -> bool:
    return isinstance(error, Unavailable) and error.maybe_applied


def _alive_at(now: int) -> ConditionBase:
    return Attr(TTL).not_exists() | Attr(TTL).gt(now)


def _with_token(write: TransactWrite, token: str | None) -> Write:
    if token is None:
        return write  # type: ignore[return-value]  # a Check never comes here
    if isinstance(write, Put):
        return Put({**write.item, WRITE_TOKEN: token}, write.condition, write.returns)
    if isinstance(write, Patch):
        changed: Mapping[str, object] = {**write.update.set, WRITE_TOKEN: token}
        return replace(write, update=replace(write.update, set=changed))
    raise TypeError(type(write).__name__)


def _repeated(write: Write, token: str | None) -> Write:
    """The same write, made to fail when its first try has already been applied."""
    if token is None or not isinstance(write, Patch):
        return write
    unseen = Attr(WRITE_TOKEN).ne(token)
    return replace(write, condition=unseen if write.condition is None else write.condition & unseen)


__all__ = ["Check", "Table"]
