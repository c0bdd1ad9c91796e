"""Many independent writes: in batches where DynamoDB has them, and in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from mlflow_dynamodbstore.table.contract import MAX_BATCH_WRITE, Delete, Outcome, Put, Write
from mlflow_dynamodbstore.table.dynamodb import requests
from mlflow_dynamodbstore.table.dynamodb.transport import Body
from mlflow_dynamodbstore.table.errors import (
    AccessDenied,
    CollectionFull,
    ConditionFailed,
    InvalidRequest,
    ItemTooLarge,
    TableError,
    TableMissing,
    Throttled,
    Unavailable,
)
from mlflow_dynamodbstore.table.request_checks import check_distinct, key_of
from mlflow_dynamodbstore.table.schema import Schema
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.table.workers import TaskRunner

Positions: TypeAlias = Sequence[int]
"""Positions of writes in the list of all."""


class BulkWrite:
    """One call of :meth:`~mlflow_dynamodbstore.table.contract.Engine.apply_many`."""

    def __init__(
        self,
        table: str,
        schema: Schema,
        writes: Sequence[Write],
        *,
        apply: Callable[[Write], Item | None],
        call: Callable[[str, Body], Body],
    ) -> None:
        self._table = table
        self._schema = schema
        self._writes = writes
        self._apply = apply
        self._call = call
        self._outcomes: list[Outcome] = [Outcome("unprocessed")] * len(writes)

    def run(self, workers: TaskRunner) -> list[Outcome]:
        """Do all writes and return their outcomes.

        Raises ``AccessDenied`` or ``TableMissing`` when every write failed with it.
        """
        check_distinct([key_of(self._schema, write) for write in self._writes])
        batched = [n for n, write in enumerate(self._writes) if _fits_batch(write)]
        alone = [n for n, write in enumerate(self._writes) if not _fits_batch(write)]
        tasks = [
            partial(self._send_batch, batched[start : start + MAX_BATCH_WRITE])
            for start in range(0, len(batched), MAX_BATCH_WRITE)
        ]
        tasks += [partial(self._send_one, position) for position in alone]
        workers.run(tasks)
        self._raise_shared_error()
        return self._outcomes

    def _raise_shared_error(self) -> None:
        errors = [outcome.error for outcome in self._outcomes]
        first = errors[0] if errors else None
        alike = all(type(error) is type(first) for error in errors)
        if alike and isinstance(first, AccessDenied | TableMissing):
            raise first

    def _send_one(self, position: int) -> None:
        write = self._writes[position]
        try:
            self._outcomes[position] = Outcome("applied", self._apply(write))
        except ConditionFailed as error:
            self._outcomes[position] = Outcome("refused", error.old, error)
        except TableError as error:
            self._outcomes[position] = _outcome_of(error, repeatable=_fits_batch(write))

    def _send_batch(self, positions: Positions) -> None:
        writes = [self._writes[position] for position in positions]
        try:
            request = requests.batch_write(self._table, self._schema, writes)
            answer = self._call("BatchWriteItem", request)
        except (InvalidRequest, ItemTooLarge, CollectionFull):
            # One bad item spoils a batch, and a batch may be too large as a whole. Halving finds
            # the bad items, and puts and deletes may be repeated.
            if len(positions) == 1:
                self._send_one(positions[0])
            else:
                middle = len(positions) // 2
                self._send_batch(positions[:middle])
                self._send_batch(positions[middle:])
            return
        except TableError as error:
            for position in positions:
                self._outcomes[position] = _outcome_of(error, repeatable=True)
            return
        left = self._unprocessed(answer)
        for position, write in zip(positions, writes, strict=True):
            if key_of(self._schema, write) not in left:
                self._outcomes[position] = Outcome("applied")

    def _unprocessed(self, answer: Body) -> set[Key]:
        """The keys that DynamoDB returns to be sent again."""
        pk, sk = self._schema.pk, self._schema.sk
        entries = (answer.get("UnprocessedItems") or {}).get(self._table, [])
        images = (entry.get("PutRequest", {}).get("Item") for entry in entries)
        keys = (entry.get("DeleteRequest", {}).get("Key") for entry in entries)
        return {Key(w[pk]["S"], w[sk]["S"]) for w in (*images, *keys) if w is not None}


def _fits_batch(write: Write) -> bool:
    """Whether a batch can hold a write: it has no condition and returns no image."""
    return isinstance(write, Put | Delete) and write.condition is None and write.returns == "none"


def _outcome_of(error: TableError, *, repeatable: bool) -> Outcome:
    if isinstance(error, Throttled):
        return Outcome("unprocessed", error=error)
    if isinstance(error, Unavailable):
        lost = error.maybe_applied and not repeatable
        return Outcome("uncertain" if lost else "unprocessed", error=error)
    return Outcome("failed", error=error)
