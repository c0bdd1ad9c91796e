"""What a table says of how it was filled, in its CONFIG partition."""

from __future__ import annotations

from dataclasses import dataclass

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Value


@dataclass
class Filled:
    """How far a filling has come; ``ended`` is when it was complete.

    ``resumed`` tells that it was begun before, ``moved`` how many items were written this time.
    """

    items: int = 0
    expired: int = 0
    moved: int = 0
    resumed: bool = False
    ended: int | None = None


class Note:
    """What a table says of its own filling."""

    def __init__(self, item: Item):
        self.source = str(item["source"])
        self.place: Value = item["place"]
        self.holder = str(item["holder"])
        self.filled = Filled(item["items"], item["expired"], resumed=True, ended=item["ended"])

    @classmethod
    def of(cls, table: Table) -> Note | None:
        """The note of a table; None for one that was not filled from elsewhere."""
        item = table.get(access_keys.fill_state_key())
        return None if item is None else cls(item)

    @property
    def is_unfinished(self) -> bool:
        return self.filled.ended is None
