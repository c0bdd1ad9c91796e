"""The table that everything above stands on.

It adds what every :class:`~mlflow_dynamodbstore.table.contract.Engine` needs:

- It splits batch reads into requests, and reads in parallel where that is faster.
- It retries requests (:mod:`~mlflow_dynamodbstore.table.wrappers.retrying`).
- It hides expired items, which DynamoDB removes up to two days late.
- It returns items in their newest form (:mod:`~mlflow_dynamodbstore.table.versions`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from functools import partial, reduce
from itertools import chain, islice
from operator import and_
from typing import Any, TypeGuard, TypeVar, overload

from boto3.dynamodb.conditions import Attr, ConditionBase
from boto3.dynamodb.conditions import Key as KeyCondition

from mlflow_dynamodbstore.table.contract import (
    MAX_BATCH_GET,
    Delete,
    Engine,
    IncompleteWrite,
    OnDamage,
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
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.request_checks import refuse_oversized
from mlflow_dynamodbstore.table.retry import Retry
from mlflow_dynamodbstore.table.schema import Schema
from mlflow_dynamodbstore.table.undo import MOST_COMPARED, NEARLY_FULL, NOTED, Undo
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import TTL, Item, Key, is_expired
from mlflow_dynamodbstore.table.workers import process_workers
from mlflow_dynamodbstore.table.wrappers.retrying import RetryingEngine
from mlflow_dynamodbstore.table.write_tokens import WRITE_TOKEN

T = TypeVar("T")
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

CHECKED_ITEMS = 1_000  # in a page of readable_pages
_FINAL = frozenset({"applied", "refused"})


class Table:
    """Get, put, update, delete, query, bulk write and transaction, with the promises above.

    Besides the errors that it names, a method may raise ``AccessDenied``, ``TableMissing``,
    ``InvalidRequest``, and ``Throttled`` or ``Unavailable`` once the retries are used up.
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
        self._absent = Attr(self._pk).not_exists()
        self.is_limited = engine.capabilities.collection_share is not None
        """Whether a partition can be full."""
        self._read = engine.schema.versions.read
        self._retrying = RetryingEngine(engine, self.retry, clock)
        self._local = engine.capabilities.local
        # A local engine is called directly, but for batch reads and transactions.
        self._sender: Engine = self._retrying if self._local is None else engine
        if self._local is not None:
            self._local.expiry_clock = clock

    @property
    def schema(self) -> Schema:
        return self.engine.schema

    def close(self) -> None:
        """Release files and connections."""
        self.engine.close()

    # --- reading --------------------------------------------------------------------------------

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        """The item at a key, or None."""
        return self._visible(self._sender.get(key, consistent=consistent))

    def get_many(self, keys: Iterable[Key], *, consistent: bool = True) -> dict[Key, Item]:
        """The items at these keys; absent ones are not in the answer. Keys may repeat."""
        wanted = list(dict.fromkeys(keys))
        chunks = [wanted[n : n + MAX_BATCH_GET] for n in range(0, len(wanted), MAX_BATCH_GET)]
        read = self._retrying.get_many
        found: dict[Key, Item] = {}
        for part in self.map(lambda chunk: read(chunk, consistent=consistent).items, chunks):
            for key, item in part.items():
                if (visible := self._visible(item)) is not None:
                    found[key] = visible
        return found

    def query(self, query: Query) -> Page:
        """One page of a partition; only its cursor tells whether there is more."""
        page = self._sender.query(query)
        return Page(self._visible_only(page.items, whole=self._brings_all(query)), page.cursor)

    def items(self, query: Query) -> Iterator[Item]:
        """All items of a query, page after page; ``limit`` is the size of a page."""
        return chain.from_iterable(self.pages(query))

    def pages(self, query: Query) -> Iterator[list[Item]]:
        """All items of a query in pages, a request each; ``limit`` is the size of a page."""
        while True:
            page = self.query(query)
            yield page.items
            if page.cursor is None:
                return
            query = replace(query, cursor=page.cursor)

    def scan(self, scan: Scan) -> Page:
        """One page of the whole table. For upkeep and export only."""
        page = self._sender.scan(scan)
        return Page(self._visible_only(page.items, whole=True), page.cursor)

    def readable_pages(self, on_damage: OnDamage) -> Iterator[list[Item]] | None:
        """All items, checked for damage, in pages; None if the engine cannot check them."""
        inspectable = self.engine.capabilities.inspectable
        if inspectable is None:
            return None
        items = inspectable.readable_items(on_damage)
        pages = iter(lambda: list(islice(items, CHECKED_ITEMS)), [])
        return (self._visible_only(page, whole=True) for page in pages)

    def map(self, function: Callable[[T], R], arguments: Sequence[T]) -> list[R]:
        """Call a function for each argument, in parallel where that is faster.

        The calls see the caller's context variables, such as the active workspace. They may call
        ``map`` themselves. The first error keeps the calls that have not begun from beginning, and
        is raised here once the others have ended.
        """
        if len(arguments) < 2 or not self.engine.capabilities.waits_on_network:
            return [function(argument) for argument in arguments]
        answers: list[Any] = [None] * len(arguments)

        def call(position: int) -> None:
            answers[position] = function(arguments[position])

        context = copy_context()
        process_workers().run(
            [partial(context.copy().run, call, position) for position in range(len(arguments))]
        )
        return answers

    @overload
    def together(self, a: Callable[[], A], b: Callable[[], B], /) -> tuple[A, B]: ...
    @overload
    def together(
        self, a: Callable[[], A], b: Callable[[], B], c: Callable[[], C], /
    ) -> tuple[A, B, C]: ...
    def together(self, *calls: Callable[[], Any]) -> tuple[Any, ...]:
        """Make calls that do not depend on each other, as :meth:`map` does.

        Where nothing is gained by it they are made one after another, in the order given. A write
        that must not happen when another call fails does not belong here.
        """
        return tuple(self.map(_call, calls))

    def collection_share(self, partition: str) -> float | None:
        """How full a partition was when it was last written to, from 0 to 1; None if unknown."""
        share = self.engine.capabilities.collection_share
        return None if share is None else share(partition)

    def throttled_seconds(self, partition: str) -> float:
        """For how long requests to a partition, and few others, have been throttled."""
        return self.retry.pacing.throttled_seconds(partition)

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
        """Do many writes independently, then those of ``then`` if all of the first were applied.

        Returns an outcome for each, ``applied`` or ``refused``. When one of ``writes`` is refused,
        ``then`` is not begun and has no outcomes. Neither may name a key twice. Raises
        ``IncompleteWrite``, which says what was written, when the retries are used up. An item that
        no engine takes is refused before anything is written.
        """
        refuse_oversized(self.schema, writes)
        refuse_oversized(self.schema, then)
        if not self.is_limited or NOTED.get() is None:
            return self._write(writes, then)
        self._note_replaced([*writes, *then])
        outcomes = self._write(writes, then)
        both = zip([*writes, *then], outcomes, strict=False)  # ``then`` may not have begun
        self._note_new([write for write, done in both if done.status == "applied"])
        return outcomes

    def _write(self, writes: Sequence[Write], then: Sequence[Write]) -> list[Outcome]:
        if self._local is not None and then:
            outcomes = self._local.apply_in_order(writes, then)
            first = self._finished(writes, outcomes[: len(writes)])
            rest = outcomes[len(writes) :]
            return first + (self._finished(then, rest) if rest else [])
        outcomes = self._finished(writes, self._sender.apply_many(writes)) if writes else []
        if then and all(outcome.status == "applied" for outcome in outcomes):
            outcomes += self._finished(then, self._sender.apply_many(then))
        return outcomes

    def redate(
        self,
        partition: str,
        ranges: Sequence[tuple[str, str]],
        ttl: int | None,
        others: Sequence[Item] = (),
    ) -> None:
        """Set or remove the ``ttl`` of all items in some ranges of sort keys, ends included.

        ``others`` are further items of the partition, whole and without a ``ttl``. Nobody else may
        change these items meanwhile. Raises as :meth:`write` does.
        """
        redate = self.engine.capabilities.redate
        if redate is not None:
            redate(partition, ranges, [item[self._sk] for item in others], ttl)
            return
        bare = self.read_for_redating(partition, ranges) or []
        self.write([Put(item if ttl is None else {**item, TTL: ttl}) for item in (*bare, *others)])

    def read_for_redating(
        self, partition: str, ranges: Sequence[tuple[str, str]]
    ) -> list[Item] | None:
        """The items in some ranges without their ``ttl``, for :meth:`redate` to write.

        None where :meth:`redate` need not read the items in its ranges.
        """
        if self.engine.capabilities.redate is not None:
            return None
        queries = [Query(partition, KeyCondition(self._sk).between(*one)) for one in ranges]
        found = self.map(lambda query: list(self.items(query)), queries)
        return [{n: v for n, v in item.items() if n != TTL} for some in found for item in some]

    def transact(self, writes: Sequence[TransactWrite]) -> None:
        """Do up to 100 writes and checks on different keys, all or none.

        Raises ``TransactionCancelled`` with a reason for each operation, in order.
        """
        self._note_replaced(writes)
        try:
            self._retrying.transact(writes, uuid.uuid4().hex)
        except TransactionCancelled as cancelled:
            for reason in cancelled.reasons:
                if reason is not None:
                    reason.old = self._clean(reason.old)
            raise
        self._note_new(writes)

    def _apply(self, write: Write) -> Item | None:
        self._note_replaced((write,))
        try:
            image = self._visible(self._sender.apply(write))
        except ConditionFailed as error:
            raise ConditionFailed(str(error), self._clean(error.old)) from error
        self._note_new((write,))
        return image

    # --- what undo.py may undo ------------------------------------------------------------------

    def _note_replaced(self, writes: Sequence[TransactWrite]) -> None:
        """Before puts to partitions that are nearly full: note what they replace."""
        noted = NOTED.get() if self.is_limited else None
        if noted is None:
            return
        puts = [write for write in writes if self._is_undoable(write)]
        if puts:
            keys = [self.schema.key_of(put.item) for put in puts]
            before = self.get_many(keys)
            noted += [self._undo_of(put, before.get(k)) for put, k in zip(puts, keys, strict=True)]

    def _is_undoable(self, write: TransactWrite) -> TypeGuard[Put]:
        if type(write) is not Put:
            return False
        share = self.collection_share(write.item[self._pk])
        # A local engine knows at no cost what is there, and what fits.
        return share is not None and (self._local is not None or share >= NEARLY_FULL)

    def _note_new(self, writes: Sequence[TransactWrite]) -> None:
        """After writes were applied: note the items that were absent before."""
        noted = NOTED.get() if self.is_limited else None
        if noted is not None:
            noted += [self._undo_of(write, None) for write in writes if self._is_new(write)]

    def _undo_of(self, put: Put, before: Item | None) -> Undo:
        def undo() -> None:
            key, compared = self.schema.key_of(put.item), islice(put.item.items(), MOST_COMPARED)
            if len(put.item) > MOST_COMPARED and self.get(key) != put.item:
                return
            as_put = reduce(and_, (Attr(name).eq(value) for name, value in compared))
            with suppress(ConditionFailed):
                if before is None:
                    self.delete(key, condition=as_put)
                else:
                    self.put(before, condition=as_put)

        return undo

    def _is_new(self, write: TransactWrite) -> TypeGuard[Put]:
        return type(write) is Put and write.condition == self._absent

    def _finished(self, writes: Sequence[Write], outcomes: Sequence[Outcome]) -> list[Outcome]:
        """The outcomes of writes that were all applied or refused; raises ``IncompleteWrite``."""
        for outcome in outcomes:
            if outcome.image is not None:
                outcome.image = self._clean(outcome.image)
        final = [outcome for outcome in outcomes if outcome.status in _FINAL]
        if len(final) < len(writes):
            raise IncompleteWrite(writes, outcomes)
        return final

    # --- what the layers above see --------------------------------------------------------------

    def _visible(self, item: Item | None) -> Item | None:
        if item is None or (TTL in item and is_expired(item, self.clock())):
            return None
        return self._clean(item)

    def _visible_only(self, items: list[Item], *, whole: bool) -> list[Item]:
        """The items that have not expired; only whole ones can be upgraded."""
        now, pk, sk, read = self.clock(), self._pk, self._sk, self._read
        visible = []
        for item in items:
            if TTL in item and is_expired(item, now):
                continue
            item.pop(WRITE_TOKEN, None)
            visible.append(read(item[pk], item[sk], item) if whole else item)
        return visible

    def _brings_all(self, query: Query) -> bool:
        """Whether a query returns whole items."""
        if query.keys_only or query.index is None:
            return not query.keys_only
        index = self.schema.by_name[query.index]
        return index.is_local or index.projection == "ALL"

    def _clean(self, item: Item | None) -> Item | None:
        """An item without its write token, in the newest form."""
        if item is None:
            return None
        item.pop(WRITE_TOKEN, None)
        return self._read(item[self._pk], item[self._sk], item)


def _call(function: Callable[[], T]) -> T:
    return function()
