"""Tags, metadata and assessments that do not fit into their trace's own item.

LSI1 carries whole traces, and an item and its copy have 400 KB together. When a trace grows too
large, its tags, metadata and assessments move to its *overflow*, one large value beside it: all at
once, so that the own item has room for many more. An attribute of the own item is newer than one of
the same name in the overflow, so setting a tag does not read the overflow. The overflow is replaced
only if nothing about the trace has changed since it was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mlflow.tracing.constant import TraceMetadataKey, TraceTagKey

from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.large_values import LargeValueLost
from mlflow_dynamodbstore.table.contract import Delete, Put
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.traces.facts import FACTS
from mlflow_dynamodbstore.traces.items import ASSESSMENT, METADATA, TAG, ttl_of

OVERFLOW = "overflow"
"""Attribute of a trace: its overflow, a large value."""

OWN_ITEM_ROOM = 128 * 1024
"""Bytes of a trace's own item beyond which it overflows."""

INLINE_OVERFLOW = 16 * 1024
"""Bytes up to which an overflow, which is compressed, stays in the trace's own item."""

_MOVABLE = (TAG, METADATA, ASSESSMENT)

# These are asked of traces whose overflow was not read.
_KEPT = frozenset(
    {
        TAG + TraceTagKey.SPANS_LOCATION,
        TAG + TraceTagKey.ARCHIVE_LOCATION,
        TAG + TraceTagKey.ARCHIVAL_FAILURE,
        METADATA + TraceMetadataKey.TRACE_INFO_FINALIZED,
        METADATA + TraceMetadataKey.SOURCE_RUN,
        METADATA + TraceMetadataKey.SIZE_STATS,
    }
)


class WholeTrace(NamedTuple):
    """The attributes of a trace's own item and of its overflow, and those of its overflow."""

    item: Item
    overflow: Item


class OwnItem(NamedTuple):
    """A trace's own item as it is stored, and what is written before it and removed after it."""

    item: Item
    parts: Sequence[Put] = ()
    obsolete: Sequence[Delete] = ()
    replaces_overflow: bool = False


def read_whole(table: Table, traces: Sequence[Item]) -> list[WholeTrace | None]:
    """Traces with their overflows, which take one request for all traces.

    A trace is None if it was deleted or has moved since its own item was read.
    """
    heads = [item for item in traces if OVERFLOW in item]
    found = iter(_load(table, heads)) if heads else iter(())
    wholes: list[WholeTrace | None] = []
    for item in traces:
        if OVERFLOW not in item:
            wholes.append(WholeTrace(item, {}))
            continue
        held = next(found)
        own = {name: value for name, value in item.items() if name != OVERFLOW}
        wholes.append(None if held is None else WholeTrace({**held, **own}, held))
    return wholes


def own_item(after: Item, before: Item | None = None, held: Item | None = None) -> OwnItem:
    """What to store for a whole trace; ``held`` is what the overflow of its own item holds."""
    before, held = before or {}, held or {}
    own = {
        name: value
        for name, value in after.items()
        if name not in held or name in before or held[name] != value
    }
    moved: Item = {}
    if item_size(own) > OWN_ITEM_ROOM:
        moved = {n: v for n, v in own.items() if n.startswith(_MOVABLE) and n not in _KEPT}
    if not moved and held.keys() <= after.keys():
        return OwnItem({**own, OVERFLOW: before[OVERFLOW]} if OVERFLOW in before else own)
    overflow = {**{n: v for n, v in held.items() if n in after}, **moved}
    if not moved and item_size(after) <= OWN_ITEM_ROOM // 2:
        own, overflow = after, {}  # it has shrunk
    own = {name: value for name, value in own.items() if name not in moved}
    parts: list[Put] = []
    if overflow:
        key = MLFLOW_TABLE.key_of(after)
        stored = large_values.store(
            key, OVERFLOW, overflow, ttl=ttl_of(after), inline=INLINE_OVERFLOW
        )
        own.update(stored.attributes)
        parts = stored.parts
    return OwnItem(own, parts, large_values.removal(before, OVERFLOW), replaces_overflow=True)


def unused_parts(item: Item) -> list[Delete]:
    """The deletes of the parts of an own item that is not stored after all."""
    return [*large_values.removal(item, OVERFLOW), *large_values.removal(item, FACTS)]


def _load(table: Table, heads: Sequence[Item]) -> list[Item | None]:
    try:
        return [value or {} for value in large_values.load_many(table, heads, OVERFLOW)]
    except LargeValueLost:
        return [_load_one(table, head) for head in heads]


def _load_one(table: Table, head: Item) -> Item | None:
    try:
        return large_values.load(table, head, OVERFLOW) or {}
    except LargeValueLost:
        if table.get(table.schema.key_of(head)) is not None:
            raise
        return None
