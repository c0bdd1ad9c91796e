"""A whole import or export: counting, moving and verifying all kinds of entities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.transfer.sql import kinds
from mlflow_dynamodbstore.transfer.sql.database import Database
from mlflow_dynamodbstore.transfer.sql.move import Kind, Move, Progress, Verification
from mlflow_dynamodbstore.transfer.sql.not_exported import not_exported


@dataclass(frozen=True)
class Transfer:
    """What an import or an export moves, and what it leaves behind."""

    database: Database
    kinds: list[Kind]
    other_data: Callable[[], Mapping[str, int]]

    @classmethod
    def from_database(cls, uri: str, table: Table) -> Transfer:
        """An import."""
        database = Database.to_read(uri)
        moved = kinds.importing(database, table)
        return cls(database, moved, lambda: kinds.not_imported(database))

    @classmethod
    def to_database(cls, table: Table, uri: str, *, create: bool) -> Transfer:
        """An export; only counting needs no tables and does not ``create`` them."""
        database = Database.to_write(uri) if create else Database(uri)
        moved = kinds.exporting(table, database)
        if create and kinds.has_access(moved):
            database.make_auth_tables()
        return cls(database, moved, lambda: not_exported(table))

    def count(self, progress: Callable[[str], None] = lambda _: None) -> dict[str, int]:
        """How many entities of each kind the source has."""
        counts = {}
        for kind in self.kinds:
            progress(kind.name)
            counts[kind.name] = kind.source.count()
        return counts

    def move(self, progress: Progress) -> Move:
        move = Move(progress)
        for kind in self.kinds:
            move.move(kind)
        return move

    def verify(self, progress: Progress) -> Verification:
        verification = Verification(progress)
        for kind in self.kinds:
            verification.verify(kind)
        return verification

    def not_moved(self) -> dict[str, int]:
        """How much of what was read, and of the rest, stays in the source."""
        found = Counter(self.other_data())
        for kind in self.kinds:
            found.update(kind.source.not_moved)
        return {label: count for label, count in found.items() if count}
