"""The note in a table's CONFIG partition about what it is filled from, and how far that is."""

from __future__ import annotations

from dataclasses import dataclass

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Value


@dataclass
class FillProgress:
    """How much a table was filled with, of ``total`` items if that is known.

    ``moved`` counts the items written by this call, ``resumed`` tells that an earlier call began,
    ``ended`` is the time at which all items were written.
    """

    items: int = 0
    expired: int = 0
    moved: int = 0
    resumed: bool = False
    ended: int | None = None
    total: int | None = None


class FillState:
    """What a table notes about its filling: the source, the position in it, who writes."""

    def __init__(self, item: Item):
        self.source = str(item["source"])
        self.position: Value = item["place"]
        self.holder = str(item["holder"])
        ended = item["ended"]
        self.progress = FillProgress(
            item["items"], item["expired"], resumed=True, ended=ended, total=item.get("total")
        )

    @classmethod
    def read(cls, table: Table) -> FillState | None:
        """The state that a table notes; None for a table that was never filled."""
        item = table.get(access_keys.fill_state_key())
        return None if item is None else cls(item)

    @property
    def is_unfinished(self) -> bool:
        return self.progress.ended is None
