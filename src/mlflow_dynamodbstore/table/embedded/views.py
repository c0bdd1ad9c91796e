"""The table or an index as a query sees it, and the SQL that reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.embedded.codec import read_cursor, write_cursor
from mlflow_dynamodbstore.table.embedded.layout import SIZED_COLUMNS, Layout
from mlflow_dynamodbstore.table.embedded.ranges import Range
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.schema import Index
from mlflow_dynamodbstore.table.sizes import text_size
from mlflow_dynamodbstore.table.values import Item


class Reading(NamedTuple):
    """Which rows of a view to read, and which columns."""

    wanted: Range
    after: list[str] | None  # the position at which the previous page ended
    descending: bool
    keys_only: bool  # without the body
    index_only: bool  # from the entries of an index that carries keys

    @property
    def shape(self) -> tuple[bool | None, ...]:
        """Everything that its SQL depends on."""
        low, high = self.wanted
        return (
            None if low is None else low.inside,
            None if high is None else high.inside,
            self.after is None,
            self.descending,
            self.keys_only,
            self.index_only,
        )

    def values(self, partition: str, limit: int) -> list[str | int]:
        """The values for the question marks of the statement."""
        bounds = [bound.text for bound in self.wanted if bound is not None]
        return [partition, *bounds, *(self.after or ()), limit]


@dataclass(frozen=True)
class View:
    """The table or an index: partitions in which items are ordered."""

    layout: Layout
    index: Index | None
    partition: str  # the attribute with the partition key
    sort_attributes: tuple[str, ...]  # the attributes that order a partition, the sort key first
    _statements: dict[tuple[bool | None, ...], str] = field(default_factory=dict)

    @classmethod
    def of(cls, layout: Layout, index: Index | None) -> View:
        """The view of an index, or of the table itself; the table's key orders ties."""
        schema = layout.schema
        if index is None:
            return cls(layout, None, schema.pk, (schema.sk,))
        if index.pk is None:
            return cls(layout, index, schema.pk, (index.sk, schema.sk))
        return cls(layout, index, index.pk, (index.sk, schema.pk, schema.sk))

    @cached_property
    def sort_key(self) -> str:
        """The attribute with the sort key."""
        return self.sort_attributes[0]

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The attributes that identify an entry, and make a cursor."""
        return tuple(dict.fromkeys((self.partition, *self.sort_attributes)))

    @cached_property
    def names_size(self) -> int:
        """What the names of the keys add to the size of an entry."""
        return sum(map(text_size, self.keys))

    @cached_property
    def is_global(self) -> bool:
        return self.index is not None and not self.index.is_local

    def shows_entries(self, query: Query) -> bool:
        """Whether a query, and its filter, see only the keys that an index carries."""
        if self.index is None or self.index.projection == "ALL":
            return False
        return query.keys_only or self.is_global

    def position(self, cursor: str, partition: str) -> list[str]:
        """The position of a cursor. Raises ``InvalidRequest`` for the cursor of another query."""
        parts = read_cursor(self._name, len(self.keys), cursor)
        found = dict(zip(self.keys, parts, strict=True))
        if found[self.partition] != partition:
            raise InvalidRequest("the cursor belongs to another partition")
        return [found[name] for name in self.sort_attributes]

    def cursor(self, last: Item) -> str:
        """The cursor of a page that ended with this item."""
        return write_cursor(self._name, [str(last[name]) for name in self.keys])

    def only_keys(self, item: Item) -> Item:
        """Only the keys of an item in this view."""
        return {name: item[name] for name in self.keys}

    def statement(self, reading: Reading) -> str:
        """The SQL of a reading, built once for each shape."""
        shape = reading.shape
        sql = self._statements.get(shape)
        if sql is None:
            sql = self._statements[shape] = self._build(reading)
        return sql

    @property
    def _name(self) -> str:
        return "" if self.index is None else self.index.name

    def _build(self, reading: Reading) -> str:
        columns = [self.layout.columns[name] for name in self.sort_attributes]
        order = ", ".join(f"{c} {'DESC' if reading.descending else 'ASC'}" for c in columns)
        return (
            f"SELECT {self._selected(reading)} FROM {self._source()} "  # noqa: S608 - our own names
            f"WHERE {' AND '.join(self._terms(reading, columns))} ORDER BY {order} LIMIT ?"
        )

    def _selected(self, reading: Reading) -> str:
        if not reading.keys_only:
            return SIZED_COLUMNS
        keys = ", ".join(self.layout.columns[name] for name in self.keys)
        # The size of an entry follows from its keys; the size column is not in the index.
        return f"{0 if reading.index_only else 'size'}, {keys}"

    def _source(self) -> str:
        if self.index is None:
            return "items"
        return f"items INDEXED BY {self.layout.index_name(self.index)}"

    def _terms(self, reading: Reading, columns: Sequence[str]) -> list[str]:
        partition, sort = self.layout.columns[self.partition], columns[0]
        low, high = reading.wanted
        terms = [f"{partition} = ?"]
        if self.index is not None:
            # Repeats the WHERE of the index, without which SQLite cannot use it.
            terms.append(f"{partition} IS NOT NULL AND {sort} IS NOT NULL")
        if low is not None:
            terms.append(f"{sort} {'>=' if low.inside else '>'} ?")
        if high is not None:
            terms.append(f"{sort} {'<=' if high.inside else '<'} ?")
        if reading.after is not None:
            marks = ", ".join("?" * len(columns))
            way = "<" if reading.descending else ">"
            terms.append(f"({', '.join(columns)}) {way} ({marks})")
        return terms
