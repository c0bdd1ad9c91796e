"""Entities as rows of MLflow's tables: a row of its own for each, and rows of others below it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mlflow_dynamodbstore.table.values import Value
from mlflow_dynamodbstore.transfer.sql.database import Database, Row, Writing
from mlflow_dynamodbstore.transfer.sql.entities import UNHELD, Entity, EntityKey, Side

EXPERIMENT = "experiment_id"

NewRows = dict[str, list[Row]]
"""Rows to be inserted, by table."""


class Below(ABC):
    """What lies below entities of a kind: read for a page of them at a time."""

    tables: tuple[str, ...]

    @abstractmethod
    def read(self, database: Database, keys: Sequence[EntityKey]) -> dict[EntityKey, Value]:
        """For each entity that has some, the value that it carries."""

    @abstractmethod
    def rows(self, entity: Entity, value: Value, rows: NewRows) -> None:
        """Add the rows that a value takes."""


@dataclass(frozen=True)
class Children(Below):
    """Rows of one table, which become a map from what tells them apart to what they say.

    ``parent`` are the columns with the entity's key. A row says the value of its only further
    column, or a map of several. ``copied`` are columns that repeat a value of the entity, ``fixed``
    those that are the same in all rows that count.
    """

    table: str
    parent: tuple[str, ...]
    key: tuple[str, ...]
    columns: tuple[str, ...]
    copied: tuple[str, ...] = ()
    fixed: Mapping[str, Value] = field(default_factory=dict)

    @property
    def tables(self) -> tuple[str, ...]:  # type: ignore[override]  # here it is computed
        return (self.table,)

    def read(self, database: Database, keys: Sequence[EntityKey]) -> dict[EntityKey, Value]:
        found: defaultdict[EntityKey, dict[Any, Value]] = defaultdict(dict)
        for row in database.having(self.table, self.parent, keys, self.fixed):
            parent = tuple(row[column] for column in self.parent)
            own = tuple(row[column] for column in self.key)
            found[parent][own[0] if len(own) == 1 else own] = self.said(row)
        return dict(found)

    def said(self, row: Row) -> Value:
        """What a row says."""
        if len(self.columns) == 1:
            return row[self.columns[0]]
        return {column: row[column] for column in self.columns}

    def rows(self, entity: Entity, value: Value, rows: NewRows) -> None:
        above = {
            **{n: stored(n, part) for n, part in zip(self.parent, entity.key, strict=True)},
            **{column: stored(column, entity.values[column]) for column in self.copied},
            **self.fixed,
        }
        for own, said in value.items():
            named = dict(zip(self.key, own if len(self.key) > 1 else (own,), strict=True))
            plain = {self.columns[0]: said} if len(self.columns) == 1 else said
            rows[self.table].append({**above, **named, **plain, **self.derived(entity, plain)})

    def derived(self, entity: Entity, said: Row) -> Row:  # noqa: ARG002 - for those who derive
        """What MLflow derives from a row and keeps beside it."""
        return {}


class RowSide(Side):
    """The entities of one kind in a database."""

    table: ClassVar[str]
    key: ClassVar[tuple[str, ...]]
    columns: ClassVar[tuple[str, ...]]
    below: ClassVar[Mapping[str, Below]] = {}
    page_size: ClassVar[int] = 100

    def __init__(self, database: Database):
        self.database = database
        self.left = Counter()

    @classmethod
    def tables(cls) -> set[str]:
        """The tables that are carried over with this kind."""
        return {cls.table, *(table for below in cls.below.values() for table in below.tables)}

    def count(self) -> int:
        return self.database.count(self.table)

    def pages(self) -> Iterator[list[Entity]]:
        after: tuple[Any, ...] | None = None
        while rows := self.database.page(self.table, self.key, after, self.page_size):
            after = tuple(rows[-1][column] for column in self.key)
            yield self._entities(rows)

    def read(self, like: Sequence[Entity]) -> dict[EntityKey, Entity]:
        wanted = [self.stored_key(entity.key) for entity in like]
        rows = list(self.database.having(self.table, self.key, wanted))
        return {entity.key: entity for entity in self._entities(rows)}

    def refusals(self, entities: Sequence[Entity]) -> dict[EntityKey, str]:
        why = {entity.key: self._refusal(entity) for entity in entities}
        return {key: sentence for key, sentence in why.items() if sentence}

    def _refusal(self, entity: Entity) -> str | None:
        if UNHELD in entity.hints:
            return str(entity.hints[UNHELD])
        for table, rows in self.rows_of([entity]).items() if self.database.is_strict else ():
            for row in rows:
                if sentence := self.database.unfit(table, row):
                    return sentence
        return None

    def write(self, entities: Sequence[Entity], source: Side) -> None:
        with self.database.writing() as writing:
            self.insert(writing, entities)
            self.insert_more(writing, entities, source)

    def insert(self, writing: Writing, entities: Sequence[Entity]) -> None:
        for table, rows in self.rows_of(entities).items():
            writing.insert(table, rows)

    def rows_of(self, entities: Sequence[Entity]) -> NewRows:
        """The rows that entities take, those that others refer to first."""
        rows: NewRows = defaultdict(list)
        for entity in entities:
            rows[self.table].append(self.own_row(entity))
            for name, below in self.below.items():
                below.rows(entity, entity.values[name], rows)
        return rows

    def insert_more(self, writing: Writing, entities: Sequence[Entity], source: Side) -> None:
        """Insert in the same transaction what entities do not hold themselves."""

    # --- one entity -----------------------------------------------------------------------------

    def stored_key(self, key: EntityKey) -> EntityKey:
        return tuple(stored(name, part) for name, part in zip(self.key, key, strict=True))

    def own_row(self, entity: Entity) -> Row:
        """An entity's own row."""
        named = dict(zip(self.key, self.stored_key(entity.key), strict=True))
        return {
            **{column: stored(column, entity.values[column]) for column in self.columns},
            **named,
        }

    def shaped(self, entity: Entity, row: Row) -> Entity:  # noqa: ARG002 - for those who do
        """An entity as both sides have it, where its row is not quite that."""
        return entity

    def _entities(self, rows: Sequence[Row]) -> list[Entity]:
        keys = [tuple(row[column] for column in self.key) for row in rows]
        below = {name: some.read(self.database, keys) for name, some in self.below.items()}
        return [
            self.shaped(
                Entity(
                    tuple(shown(n, v) for n, v in zip(self.key, key, strict=True)),
                    {
                        **{column: shown(column, row[column]) for column in self.columns},
                        **{name: found.get(key, {}) for name, found in below.items()},
                    },
                ),
                row,
            )
            for key, row in zip(keys, rows, strict=True)
        ]


def shown(column: str, value: Value) -> Value:
    """A column's value as entities have it: experiments are known by texts."""
    return str(value) if column == EXPERIMENT and value is not None else value


def stored(column: str, value: Value) -> Value:
    """The inverse of :func:`shown`."""
    return int(value) if column == EXPERIMENT and value is not None else value
