"""Where items come from: pages of them, each with the place behind it, to go on from later."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.table.location import parse
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Value, is_expired
from mlflow_dynamodbstore.table.wrappers.as_stored import AsStoredEngine
from mlflow_dynamodbstore.upkeep import cleanup, run_walk
from mlflow_dynamodbstore.upkeep.walk import Walk

T = TypeVar("T")

SEGMENTS = 4
"""Parts of a table that are read at once over a network."""

_LEFT_WORDS = (
    access_keys.setting(cleanup.POSITION),
    access_keys.setting(run_walk.POSITION),
    access_keys.filling(),
)


class Source(Protocol):
    """A table or an archive, read from its beginning or from a place that it named before."""

    @property
    def identity(self) -> str:
        """What tells it from every other source."""

    def pages(self, place: Value = None) -> Iterator[tuple[list[Item], Value]]:
        """Pages of items as they are stored, and the place behind each."""


class TableSource:
    """A whole table, read in segments side by side where there is a network.

    What a write leaves for its own retries (``_w``) is no part of an item and does not come along.
    """

    def __init__(self, table: Table, segments: int | None = None):
        self._waits = table.engine.capabilities.waits_on_network
        self._segments = segments or (SEGMENTS if self._waits else 1)
        # Before all time nothing has expired: what has is to be counted, not to be overlooked.
        self._table = Table(
            AsStoredEngine(table.engine), clock=lambda: float("-inf"), retry=table.retry
        )

    @property
    def identity(self) -> str:
        """The table's URI without its options."""
        return address_of(self._table)

    def pages(self, place: Value = None) -> Iterator[tuple[list[Item], Value]]:
        """Pages of up to 1 MB a segment; a place is a cursor for each segment."""
        stepwise = self._steps(place)
        return _ahead(stepwise) if self._waits else stepwise

    def _steps(self, place: Value) -> Iterator[tuple[list[Item], Value]]:
        begin = Walk.of_segments(self._table, self._segments)
        walk = begin if place is None else Walk(self._table, list(place))
        while not walk.is_done:
            items = walk.step()
            yield items, list(walk.cursors)


class Sieve:
    """Leaves out what has expired, and notes of upkeep about places in the table it was in."""

    def __init__(self, now: float):
        self._now = now
        self.expired = 0

    def keep(self, items: list[Item]) -> list[Item]:
        """What is to be moved."""
        alive = [item for item in items if not is_expired(item, self._now)]
        self.expired += len(items) - len(alive)
        return [item for item in alive if not _stays(item)]


def address_of(table: Table) -> str:
    """The URI of a table without its options."""
    return str(parse(table.engine.uri))


def _stays(item: Item) -> bool:
    """Whether an item says how far some work on its own table has come.

    Cursors of one table mean nothing in another; the work begins anew there.
    """
    return item["PK"] == access_keys.CONFIG_PK and str(item["SK"]).startswith(_LEFT_WORDS)


def _ahead(pages: Iterator[T]) -> Iterator[T]:
    """The same, each read while the one before is being worked on."""
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as reader:
        coming = reader.submit(next, pages, None)
        while (page := coming.result()) is not None:
            coming = reader.submit(next, pages, None)
            yield page
