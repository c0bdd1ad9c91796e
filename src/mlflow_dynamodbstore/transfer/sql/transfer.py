"""A whole import or export: counting, moving and verifying all kinds of entities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.transfer.sql import kinds
from mlflow_dynamodbstore.transfer.sql.database import Database
from mlflow_dynamodbstore.transfer.sql.entities import EntityStore
from mlflow_dynamodbstore.transfer.sql.experiments import DEFAULT_ID
from mlflow_dynamodbstore.transfer.sql.move import (
    EXPERIMENTS,
    Findings,
    Kind,
    Move,
    Progress,
    Verification,
)
from mlflow_dynamodbstore.transfer.sql.obstacles import obstacles
from mlflow_dynamodbstore.transfer.sql.renumbering import Changes, Renumbering
from mlflow_dynamodbstore.transfer.sql.served import MlflowServer
from mlflow_dynamodbstore.upkeep.import_state import ImportState


@dataclass(frozen=True)
class Transfer:
    """What an import or an export moves, and what it leaves behind."""

    database: Database | MlflowServer
    table: Table
    kinds: list[Kind]
    other_data: Callable[[], Mapping[str, int]]
    state: ImportState | None = None
    renumbering: Renumbering | None = None

    @classmethod
    def from_database(
        cls, database: Database, table: Table, changes: Changes | None = None
    ) -> Transfer:
        """An import; with ``changes``, beside what the table already holds."""
        moved = kinds.importing(database, table)
        state = ImportState(table, database.address)
        made = cls(database, table, moved, lambda: kinds.not_imported(database), state)
        return made if changes is None else made.changed(changes)

    @classmethod
    def from_server(
        cls, server: MlflowServer, table: Table, changes: Changes | None = None
    ) -> Transfer:
        """An import over REST."""
        made = cls(server, table, server.kinds(table), dict, ImportState(table, server.address))
        return made if changes is None else made.changed(changes)

    def changed(self, changes: Changes) -> Transfer:
        """The same import with new ids, names or another workspace."""
        renumbering = Renumbering(self.table, self.database.address, changes)
        return replace(self, kinds=renumbering.kinds(self.kinds), renumbering=renumbering)

    @classmethod
    def to_database(cls, table: Table, uri: str, *, create: bool) -> Transfer:
        """An export; only counting needs no tables and does not ``create`` them."""
        database = Database.to_write(uri) if create else Database(uri)
        moved = kinds.exporting(table, database)
        if create and kinds.has_access(moved):
            database.make_auth_tables()
        return cls(database, table, moved, dict)

    def count(self, progress: Callable[[str], None] = lambda _: None) -> dict[str, int]:
        """How many entities of each kind the source has."""
        counts = {}
        for kind in self.kinds:
            progress(kind.name)
            counts[kind.name] = kind.source.count()
        return counts

    def obstacles(self) -> Findings:
        """What keeps an import from writing all experiments and models."""
        return obstacles(self.kinds, self.table, self.renumbering)

    def move(self, progress: Progress, totals: Mapping[str, int] | None = None) -> Move:
        """Move all entities. An import is noted in the table from its first write to its last.

        With the ``totals`` of :meth:`count` the note says how far it is.
        """
        state = self.state

        def noted(kind: str, done: int) -> None:
            progress(kind, done)
            if state is not None and totals is not None:
                state.note(kind, done, totals[kind])

        move = Move(noted)
        if self.state is not None:
            self.state.begin()
        for kind in self.kinds:
            move.move(kind)
        if self.state is not None:
            self.state.finish()
        return move

    def verify(self, progress: Progress) -> Verification:
        verification = Verification(progress)
        for kind in self.kinds:
            verification.verify(kind)
        return verification

    def other_data_in_target(self) -> str | None:
        """Why the target of an export is not empty and no earlier export of this table, if so."""
        if self.database.is_new or not self.database.has_tracking:
            return None
        (experiments,) = (kind for kind in self.kinds if kind.name == EXPERIMENTS)
        assert isinstance(experiments.source, EntityStore)  # an export reads a table
        for page in experiments.target.pages():
            ours = experiments.source.read(page)
            for entity in page:
                mine = ours.get(entity.key)
                if entity.key == (DEFAULT_ID,) or (
                    mine is not None and mine.values["name"] == entity.values["name"]
                ):
                    continue
                here = "not in this table" if mine is None else f"{mine.values['name']!r} here"
                return f"its experiment {entity} is {entity.values['name']!r}, and {here}"
        return None

    def not_moved(self) -> dict[str, int]:
        """How much of what was read, and of the rest, stays in the source."""
        found = Counter(self.other_data())
        for kind in self.kinds:
            found.update(kind.source.not_moved)
        return {label: count for label, count in found.items() if count}
