"""A walk through a whole table, in segments read side by side, that can be taken up again."""

from __future__ import annotations

from mlflow_dynamodbstore.table.contract import Scan
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item

START = ""
"""Stands for the beginning of a segment; None stands for its end."""


PAGE_ITEMS = 5_000


class Walk:
    """Where a walk is: a cursor for each segment.

    Each step reads one page of every segment that is not at its end, so that no more is held in
    memory than a page a segment: 1 MB, and of small items not too many.
    """

    def __init__(self, table: Table, cursors: list[str | None]):
        self._table = table
        self.cursors = cursors

    @classmethod
    def of_segments(cls, table: Table, segments: int) -> Walk:
        """A walk from the beginning."""
        return cls(table, [START] * segments)

    @property
    def is_done(self) -> bool:
        return all(cursor is None for cursor in self.cursors)

    def step(self) -> list[Item]:
        """The items of the next page of each segment."""
        going = [n for n, cursor in enumerate(self.cursors) if cursor is not None]
        pages = self._table.map(
            lambda n: self._table.scan(
                Scan(n, len(self.cursors), cursor=self.cursors[n] or None, limit=PAGE_ITEMS)
            ),
            going,
        )
        for n, page in zip(going, pages, strict=True):
            self.cursors[n] = page.cursor
        return [item for page in pages for item in page.items]
