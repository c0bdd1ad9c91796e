"""A scan of a whole table, in segments that are read side by side, that can be resumed."""

from __future__ import annotations

from mlflow_dynamodbstore.table.contract import Scan
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item

START = ""
"""The cursor at the beginning of a segment; None is the cursor at its end."""
PAGE_ITEMS = 5_000


class SegmentedScan:
    """How far a scan is: a cursor for each segment.

    Each step reads one page of every unfinished segment, so memory holds a page for each: up to
    1 MB, and up to ``PAGE_ITEMS`` items.
    """

    def __init__(self, table: Table, cursors: list[str | None]):
        self._table = table
        self.cursors = cursors

    @classmethod
    def start(cls, table: Table, segments: int) -> SegmentedScan:
        """A scan from the beginning."""
        return cls(table, [START] * segments)

    @property
    def is_done(self) -> bool:
        return all(cursor is None for cursor in self.cursors)

    def next_items(self) -> list[Item]:
        """The items of the next page of each segment."""
        unfinished = [n for n, cursor in enumerate(self.cursors) if cursor is not None]
        pages = self._table.map(
            lambda n: self._table.scan(
                Scan(n, len(self.cursors), cursor=self.cursors[n] or None, limit=PAGE_ITEMS)
            ),
            unfinished,
        )
        for n, page in zip(unfinished, pages, strict=True):
            self.cursors[n] = page.cursor
        return [item for page in pages for item in page.items]
