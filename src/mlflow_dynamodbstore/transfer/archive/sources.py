"""Where items are read from: in pages, each with the position after it, to resume at."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.table.contract import Damage
from mlflow_dynamodbstore.table.errors import RESCUE, Damaged
from mlflow_dynamodbstore.table.location import parse
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Value, is_expired
from mlflow_dynamodbstore.table.wrappers.as_stored import AsStoredEngine
from mlflow_dynamodbstore.upkeep import backfill, cleanup
from mlflow_dynamodbstore.upkeep.segmented_scan import SegmentedScan
from mlflow_dynamodbstore.upkeep.surveys import Surveys

T = TypeVar("T")

SEGMENTS = 4
"""How many segments of a table are read at once over a network."""

_POSITION_NOTES = (
    access_keys.setting(cleanup.POSITION),
    access_keys.setting(backfill.POSITION),
    access_keys.FILL_STATE,
)


class Source(Protocol):
    """A table or an archive, read from its beginning or from a position that it gave before."""

    @property
    def identity(self) -> str:
        """A text that no other source has."""

    def pages(self, position: Value = None) -> Iterator[tuple[list[Item], Value]]:
        """Pages of items as they are stored, and the position after each."""


class TableSource:
    """A whole table, read in segments side by side over a network.

    The attribute that a write leaves for its own retries (``_w``) is left out.
    """

    def __init__(self, table: Table, segments: int | None = None):
        self._waits = table.engine.capabilities.waits_on_network
        self._segments = segments or (SEGMENTS if self._waits else 1)
        # With this clock nothing has expired, so that expired items are read and counted.
        self._table = Table(
            AsStoredEngine(table.engine), clock=lambda: float("-inf"), retry=table.retry
        )

    @property
    def identity(self) -> str:
        """The table's URI without its options."""
        return address_of(self._table)

    def last_count(self) -> int | None:
        """How many items there were when somebody counted them; counting means reading them all."""
        survey = Surveys(self._table).read().survey
        return None if survey is None else survey.total.items

    def pages(self, position: Value = None) -> Iterator[tuple[list[Item], Value]]:
        """Pages of up to 1 MB for each segment; a position is a cursor for each segment."""
        pages = self._pages(position)
        return _read_ahead(pages) if self._waits else pages

    def _pages(self, position: Value) -> Iterator[tuple[list[Item], Value]]:
        if position is None:
            scan = SegmentedScan.start(self._table, self._segments)
        else:
            scan = SegmentedScan(self._table, list(position))
        while not scan.is_done:
            items = scan.next_items()
            yield items, list(scan.cursors)


class CheckedTableSource(TableSource):
    """A whole table whose items are checked for damage as they are read, where the engine can.

    The first damaged item raises ``Damaged``, or all are left out and listed in ``left_out``.
    """

    def __init__(self, table: Table, segments: int | None = None, *, skip_damaged: bool = False):
        super().__init__(table, segments)
        self._skips = skip_damaged
        self.left_out: list[Damage] = []

    def pages(self, position: Value = None) -> Iterator[tuple[list[Item], Value]]:
        """Pages of intact items. A file is read in one go, so its pages have no positions."""
        self.left_out = []
        checked = self._table.readable_pages(self._note)
        if checked is None:
            return super().pages(position)
        return ((items, None) for items in checked)

    def _note(self, damage: Damage) -> None:
        if not damage.is_lost:
            return
        if not self._skips:
            raise Damaged(f"{damage}; {RESCUE}", damage.key)
        self.left_out.append(damage)


class ItemFilter:
    """Leaves out expired items, and the positions that work on the source table has noted."""

    def __init__(self, now: float):
        self._now = now
        self.expired = 0

    def keep(self, items: list[Item]) -> list[Item]:
        """The items that are moved."""
        unexpired = [item for item in items if not is_expired(item, self._now)]
        self.expired += len(items) - len(unexpired)
        return [item for item in unexpired if not _is_position_note(item)]


def address_of(table: Table) -> str:
    """The URI of a table without its options."""
    return str(parse(table.engine.uri))


def _is_position_note(item: Item) -> bool:
    """Whether an item notes how far some work on its own table is.

    The cursors of one table mean nothing in another.
    """
    return item["PK"] == access_keys.CONFIG_PK and str(item["SK"]).startswith(_POSITION_NOTES)


def _read_ahead(pages: Iterator[T]) -> Iterator[T]:
    """The same pages, each read while the caller works on the one before."""
    with ThreadPoolExecutor(1, thread_name_prefix="read-ahead") as reader:
        upcoming = reader.submit(next, pages, None)
        while (page := upcoming.result()) is not None:
            upcoming = reader.submit(next, pages, None)
            yield page
