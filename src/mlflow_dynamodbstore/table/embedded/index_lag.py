"""Global indexes that show a write late, as DynamoDB's may.

With a lag, each write first notes the old image of the item and when the indexes may show the
change. Until then a global index shows the old image; of several notes about one item, the oldest.
Only tests use this, so it is written for clarity and not for speed.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mlflow_dynamodbstore.table.conditions import Predicate
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.embedded.codec import pack, unpack
from mlflow_dynamodbstore.table.embedded.views import View
from mlflow_dynamodbstore.table.values import Item, Key


class IndexLag:
    """Notes about changes that global indexes do not show yet."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock

    def note(
        self, connection: sqlite3.Connection, key: tuple[str, str], before: Item | None
    ) -> None:
        """Note the old image of an item that the same transaction writes."""
        due = self._clock() + self._seconds
        image = None if before is None else pack(before)
        connection.execute("INSERT INTO pending VALUES (?, ?, ?, ?)", (*key, due, image))

    def forget(self, connection: sqlite3.Connection) -> None:
        """Remove the notes whose time is over."""
        connection.execute("DELETE FROM pending WHERE due <= ?", (self._clock(),))

    def merged(
        self,
        connection: sqlite3.Connection,
        current: Iterable[Item],
        belongs: Predicate,
        view: View,
        query: Query,
    ) -> Iterator[Item]:
        """The items that a lagging index shows, in order.

        ``current`` are the items that it would show without a lag; ``belongs`` tells whether an old
        image is in the same range.
        """
        schema = view.layout.schema
        earlier = self._earlier(connection)

        def by_position(item: Item) -> list[Any]:
            return [item[name] for name in view.sort_attributes]

        unchanged = (item for item in current if schema.key_of(item) not in earlier)
        images = [item for item in earlier.values() if item is not None and belongs(item)]
        images.sort(key=by_position, reverse=query.descending)
        return heapq.merge(unchanged, images, key=by_position, reverse=query.descending)

    def _earlier(self, connection: sqlite3.Connection) -> dict[Key, Item | None]:
        """The keys of items whose old image the indexes show, with that image."""
        rows = connection.execute(
            "SELECT pk, sk, before FROM pending WHERE due > ? ORDER BY due DESC, rowid DESC",
            (self._clock(),),
        ).fetchall()
        # The last row of a key wins: it is the oldest note.
        return {Key(pk, sk): None if before is None else unpack(before) for pk, sk, before in rows}
