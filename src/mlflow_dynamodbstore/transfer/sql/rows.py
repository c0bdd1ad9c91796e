"""Entities as rows of MLflow's tables: each has its own row, and rows of child tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mlflow_dynamodbstore.table.values import Value
from mlflow_dynamodbstore.transfer.sql.database import Database, Row, Transaction
from mlflow_dynamodbstore.transfer.sql.entities import (
    NOT_EXPORTABLE,
    Entity,
    EntityKey,
    EntitySource,
    EntityStore,
)

EXPERIMENT = "experiment_id"

NewRows = dict[str, list[Row]]
"""Rows to be inserted, by table."""


class ChildTables(ABC):
    """The tables that hold one value of the entities of a kind."""

    tables: tuple[str, ...]

    @abstractmethod
    def read(self, database: Database, keys: Sequence[EntityKey]) -> dict[EntityKey, Value]:
        """The value of each entity that has one."""

    @abstractmethod
    def rows(self, entity: Entity, value: Value, rows: NewRows) -> None:
        """Add the rows that hold a value of an entity."""


@dataclass(frozen=True)
class ChildTable(ChildTables):
    """One table, whose rows become a map from their ``key`` to their ``columns``.

    ``parent`` are the columns with the entity's key. A row with one further column maps to its
    value, one with several to a map of them. ``copied`` columns repeat values of the entity;
    ``fixed`` columns select the rows that count.
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
        for row in database.rows_with(self.table, self.parent, keys, self.fixed):
            parent = tuple(row[column] for column in self.parent)
            own = tuple(row[column] for column in self.key)
            found[parent][own[0] if len(own) == 1 else own] = self.value_of(row)
        return dict(found)

    def value_of(self, row: Row) -> Value:
        """The value that a row maps to."""
        if len(self.columns) == 1:
            return row[self.columns[0]]
        return {column: row[column] for column in self.columns}

    def rows(self, entity: Entity, value: Value, rows: NewRows) -> None:
        shared = {
            **{n: stored(n, part) for n, part in zip(self.parent, entity.key, strict=True)},
            **{column: stored(column, entity.values[column]) for column in self.copied},
            **self.fixed,
        }
        for own, mapped in value.items():
            key = dict(zip(self.key, own if len(self.key) > 1 else (own,), strict=True))
            columns = {self.columns[0]: mapped} if len(self.columns) == 1 else mapped
            row = {**shared, **key, **columns, **self.derived(entity, columns)}
            rows[self.table].append(row)

    def derived(self, entity: Entity, columns: Row) -> Row:
        """Further columns, which MLflow derives from the others."""
        del entity, columns
        return {}


class RowStore(EntityStore):
    """The entities of one kind in a database."""

    table: ClassVar[str]
    key: ClassVar[tuple[str, ...]]
    columns: ClassVar[tuple[str, ...]]
    children: ClassVar[Mapping[str, ChildTables]] = {}
    page_size: ClassVar[int] = 100

    def __init__(self, database: Database):
        self.database = database
        self.not_moved = Counter()

    @classmethod
    def tables(cls) -> set[str]:
        """The tables that are moved with this kind."""
        return {cls.table, *(table for child in cls.children.values() for table in child.tables)}

    def count(self) -> int:
        return self.database.count(self.table)

    def pages(self) -> Iterator[list[Entity]]:
        after: tuple[Any, ...] | None = None
        while rows := self.database.page(self.table, self.key, after, self.page_size):
            after = tuple(rows[-1][column] for column in self.key)
            yield self._entities(rows)

    def read(self, like: Sequence[Entity]) -> dict[EntityKey, Entity]:
        wanted = [self._stored_key(entity) for entity in like]
        rows = list(self.database.rows_with(self.table, self.key, wanted))
        return {entity.key: entity for entity in self._entities(rows)}

    def refusal(self, entity: Entity) -> str | None:
        if NOT_EXPORTABLE in entity.hints:
            return str(entity.hints[NOT_EXPORTABLE])
        for table, rows in self.rows_of([entity]).items() if self.database.is_strict else ():
            for row in rows:
                if sentence := self.database.why_unfit(table, row):
                    return sentence
        return None

    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        with self.database.transaction() as transaction:
            self.insert(transaction, entities)
            self.insert_histories(transaction, entities, source)

    def insert(self, transaction: Transaction, entities: Sequence[Entity]) -> None:
        for table, rows in self.rows_of(entities).items():
            transaction.insert(table, rows)

    def rows_of(self, entities: Sequence[Entity]) -> NewRows:
        """The rows of entities, those that others refer to first."""
        rows: NewRows = defaultdict(list)
        for entity in entities:
            rows[self.table].append(self.own_row(entity))
            for name, child in self.children.items():
                child.rows(entity, entity.values[name], rows)
        return rows

    def insert_histories(
        self, transaction: Transaction, entities: Sequence[Entity], source: EntitySource
    ) -> None:
        """Insert the metric histories of entities, which the entities do not hold."""

    # --- one entity -----------------------------------------------------------------------------

    def _stored_key(self, entity: Entity) -> EntityKey:
        return tuple(stored(n, part) for n, part in zip(self.key, entity.key, strict=True))

    def own_row(self, entity: Entity) -> Row:
        """An entity's own row."""
        return {
            **{column: stored(column, entity.values[column]) for column in self.columns},
            **dict(zip(self.key, self._stored_key(entity), strict=True)),
        }

    def normalised(self, entity: Entity, row: Row) -> Entity:
        """An entity as both stores have it, where its row differs from that."""
        del row
        return entity

    def _entities(self, rows: Sequence[Row]) -> list[Entity]:
        keys = [tuple(row[column] for column in self.key) for row in rows]
        children = {name: child.read(self.database, keys) for name, child in self.children.items()}
        return [
            self.normalised(
                Entity(
                    tuple(shown(n, v) for n, v in zip(self.key, key, strict=True)),
                    {
                        **{column: shown(column, row[column]) for column in self.columns},
                        **{name: found.get(key, {}) for name, found in children.items()},
                    },
                ),
                row,
            )
            for key, row in zip(keys, rows, strict=True)
        ]


def shown(column: str, value: Value) -> Value:
    """A column's value as entities have it: the ids of experiments are texts."""
    return str(value) if column == EXPERIMENT and value is not None else value


def stored(column: str, value: Value) -> Value:
    """The inverse of :func:`shown`."""
    return int(value) if column == EXPERIMENT and value is not None else value
