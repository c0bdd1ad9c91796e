"""The content of a version: its ``server.json``, tools and connect options.

It is stored as one JSON text of any length. A long text is split into parts beside the version. A
change writes the parts before the transaction that names them, and removes them when that fails. It
writes them only where the server exists: removing the server empties its partition, parts included,
and the transaction is then refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.table.contract import Delete
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key

CONTENT = "content"
INLINE = 64 * 1024

Content = dict[str, Any]


def stored_content(version: Key, content: Content) -> large_values.Stored:
    """The stored form of the content of the version at a key."""
    return large_values.store(version, CONTENT, json.dumps(content), inline=INLINE)


class ContentDrafts:
    """The contents written by a change, which may be decided several times."""

    def __init__(self, table: Table):
        self._table = table
        self._written: list[Key] = []

    def write(self, version: Key, content: Content) -> Item:
        """Write the parts of a content, and return the attribute that names or holds it."""
        stored = stored_content(version, content)
        self._table.write(stored.parts)
        self._written += map(self._table.schema.key_of, (part.item for part in stored.parts))
        return stored.attributes

    def remove(self, except_for: Iterable[Key] = ()) -> None:
        """Remove the parts that were written, except for those that the version names."""
        unused = set(self._written) - set(except_for)
        self._table.write([Delete(key) for key in sorted(unused)])


def part_keys(version: Item) -> list[Key]:
    """The keys of the parts of a version's content."""
    return large_values.part_keys(version, CONTENT)


def content_of(table: Table, version: Item, parts: dict[Key, Item]) -> Content:
    """The content of a version, read from the table unless ``parts`` has all its parts."""
    wanted = part_keys(version)
    if wanted and all(key in parts for key in wanted):
        text = large_values.unpack(b"".join(parts[key]["data"] for key in wanted), version, CONTENT)
    else:
        text = large_values.load(table, version, CONTENT)
    content: Content = json.loads(str(text))
    return content
