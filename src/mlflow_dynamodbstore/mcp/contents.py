"""What a version says: its ``server.json``, tools and connect options.

They are one text of JSON, as long as it may be. A long one lies in parts beside the version, which
are written before the change that names them, and taken back when that does not come about. They
are written when a change is decided, on a server that is there: whoever removes the server empties
its partition, and the change is refused then.
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
    """How the content of the version at a key is to be written."""
    return large_values.store(version, CONTENT, json.dumps(content), inline=INLINE)


class Drafts:
    """Contents written for a change that may be decided several times."""

    def __init__(self, table: Table):
        self._table = table
        self._written: list[Key] = []

    def write(self, version: Key, content: Content) -> Item:
        """The attribute that says a content; its parts are written."""
        stored = stored_content(version, content)
        self._table.write(stored.parts)
        self._written += map(self._table.schema.key_of, (part.item for part in stored.parts))
        return stored.attributes

    def drop(self, besides: Iterable[Key] = ()) -> None:
        """Remove the parts that nothing names; those of ``besides`` are named."""
        unused = set(self._written) - set(besides)
        self._table.write([Delete(key) for key in sorted(unused)])


def part_keys(version: Item) -> list[Key]:
    """Where the parts of a long content are."""
    return large_values.part_keys(version, CONTENT)


def content_of(table: Table, version: Item, parts: dict[Key, Item]) -> Content:
    """The content of a version, whose parts may be at hand."""
    wanted = part_keys(version)
    if wanted and all(key in parts for key in wanted):
        text = large_values.unpack(b"".join(parts[key]["data"] for key in wanted))
    else:
        text = large_values.load(table, version, CONTENT)
    content: Content = json.loads(str(text))
    return content
