"""Two stores on one table, of which one is interrupted between two of its requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.table.contract import (
    Engine,
    Got,
    Outcome,
    Page,
    Query,
    Scan,
    TransactWrite,
    Write,
)
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.stores import ARTIFACTS
from tests.table.fakes import FakeTime, patient_retry

Meanwhile = Callable[[], object]


class InterruptedEngine(WrappedEngine):
    """An engine that lets things happen right before chosen requests.

    Each of many writes counts as a request of its own, since no engine promises that they are
    done together.
    """

    def __init__(self, inner: Engine):
        super().__init__(inner)
        self._requests = 0
        self._moments: dict[int, Meanwhile] = {}
        self.ended_before = False
        """Whether the last call ended before all that was to happen meanwhile had happened."""

    @contextmanager
    def interrupted(self, moments: Mapping[int, Meanwhile]) -> Iterator[None]:
        """Let things happen before the so-manieth requests from now."""
        self._requests, self._moments = 0, dict(moments)
        try:
            yield
        finally:
            self.ended_before = bool(self._moments)
            self._moments = {}

    def _next(self) -> None:
        self._requests += 1
        meanwhile = self._moments.pop(self._requests, None)
        if meanwhile is not None:
            meanwhile()

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        self._next()
        return super().get(key, consistent=consistent)

    def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> Got:
        self._next()
        return super().get_many(keys, consistent=consistent)

    def apply(self, write: Write) -> Item | None:
        self._next()
        return super().apply(write)

    def apply_many(self, writes: Sequence[Write]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for write in writes:
            self._next()
            outcomes += super().apply_many([write])
        return outcomes

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        self._next()
        super().transact(writes, token)

    def query(self, query: Query) -> Page:
        self._next()
        return super().query(query)

    def scan(self, scan: Scan) -> Page:
        self._next()
        return super().scan(scan)


class Two(NamedTuple):
    """Two stores on one table; ``engine`` is the one under the first."""

    first: Any
    second: Any
    engine: InterruptedEngine


def two_stores(folder: Path, make: Callable[[str, Table], Any] | None = None) -> Two:
    """Two stores of a folder, as two processes would have them, with one clock."""
    uri, time = f"dynamodb:///{folder}/mlflow.ddb?synchronous=NORMAL", FakeTime()
    engine = InterruptedEngine(open_engine(uri))
    made = [
        (make or _tracking_store)(uri, Table(one, clock=time, retry=patient_retry(time)))
        for one in (engine, open_engine(uri))
    ]
    return Two(made[0], made[1], engine)


def _tracking_store(uri: str, table: Table) -> DynamoDBTrackingStore:
    return DynamoDBTrackingStore(uri, ARTIFACTS, table=table)


def at_every_moment(two: Two, meanwhile: Meanwhile) -> Iterator[int]:
    """Let something happen at the first, second, ... request of the first store in the loop's body.

    Ends after the body that had no further request; there it did not happen.
    """
    for at in count(1):
        with two.engine.interrupted({at: meanwhile}):
            yield at
        if two.engine.ended_before:
            return


Operation = Callable[[Any, Any], object]
"""What a store does to a subject."""


class End(NamedTuple):
    """How two operations ended: the error of each, if any, and what there is then."""

    of_one: str | None
    of_other: str | None
    state: object


def interleaved(
    two: Two,
    begin: Callable[[], Any],
    one: Operation,
    other: Operation,
    state: Callable[[Any], object],
) -> Iterator[tuple[int, End, list[End]]]:
    """Interrupt one operation before each of its requests by the whole of another.

    Gives each moment with its end, and the ends that the two have one after the other. ``begin``
    makes a new subject each time.
    """
    subject = begin()
    errors = error_of(one, two.first, subject), error_of(other, two.second, subject)
    serial = [End(*errors, state(subject))]
    subject = begin()
    errors = error_of(other, two.second, subject), error_of(one, two.first, subject)
    serial.append(End(errors[1], errors[0], state(subject)))
    for at in count(1):
        subject = begin()
        raised: list[str | None] = []
        meanwhile = partial(_noted, raised, other, two.second, subject)
        with two.engine.interrupted({at: meanwhile}):
            failed = error_of(one, two.first, subject)
        if two.engine.ended_before:
            return
        yield at, End(failed, raised[0], state(subject)), serial


def _noted(raised: list[str | None], operation: Operation, store: Any, subject: Any) -> None:
    raised.append(error_of(operation, store, subject))


def error_of(operation: Operation, store: Any, subject: Any) -> str | None:
    """The code of MLflow's error that an operation raises, or None."""
    try:
        operation(store, subject)
    except MlflowException as error:
        return str(error.error_code)
    return None
