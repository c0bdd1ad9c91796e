"""A log of slow calls, with the partition they went to."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from mlflow_dynamodbstore.table.contract import (
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
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine

_LOGGER = logging.getLogger(__name__)


class SlowLogEngine(WrappedEngine):
    """Logs calls that took longer than ``threshold`` seconds as warnings, the others as debug.

    A call that raised is logged too, with the name of its error.
    """

    def __init__(
        self,
        inner: Engine,
        *,
        threshold: float = 1.0,
        clock: Callable[[], float] = time.perf_counter,
        logger: logging.Logger = _LOGGER,
    ) -> None:
        super().__init__(inner)
        self._threshold = threshold
        self._clock = clock
        self._logger = logger

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        with self._timed("get", key.pk):
            return self.inner.get(key, consistent=consistent)

    def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> Got:
        with self._timed("get_many", _partitions([key.pk for key in keys])):
            return self.inner.get_many(keys, consistent=consistent)

    def apply(self, write: Write) -> Item | None:
        with self._timed("apply", self._partition_of(write)):
            return self.inner.apply(write)

    def apply_many(self, writes: Sequence[Write]) -> list[Outcome]:
        with self._timed("apply_many", self._partitions_of(writes)):
            return self.inner.apply_many(writes)

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        with self._timed("transact", self._partitions_of(writes)):
            self.inner.transact(writes, token)

    def query(self, query: Query) -> Page:
        where = query.partition if query.index is None else f"{query.index}:{query.partition}"
        with self._timed("query", where):
            return self.inner.query(query)

    def scan(self, scan: Scan) -> Page:
        with self._timed("scan", f"segment {scan.segment} of {scan.segments}"):
            return self.inner.scan(scan)

    def _partitions_of(self, writes: Sequence[TransactWrite]) -> str:
        return _partitions([self._partition_of(write) for write in writes])

    def _partition_of(self, write: TransactWrite) -> str:
        # An item without a key is for the engine to refuse, not for the log.
        return str(write.item.get(self.schema.pk)) if isinstance(write, Put) else write.key.pk

    @contextmanager
    def _timed(self, operation: str, where: str) -> Iterator[None]:
        start = self._clock()
        error = ""
        try:
            yield
        except BaseException as raised:
            error = f", raised {type(raised).__name__}"
            raise
        finally:
            took = self._clock() - start
            level = logging.WARNING if took >= self._threshold else logging.DEBUG
            self._logger.log(level, "%s on %s took %.1f ms%s", operation, where, 1000 * took, error)


def _partitions(names: Sequence[str]) -> str:
    distinct = list(dict.fromkeys(names))
    first = distinct[0] if distinct else "nothing"
    more = f" and {len(distinct) - 1} more partitions" if len(distinct) > 1 else ""
    return f"{first}{more} ({len(names)} keys)"
