"""The notes in a table's settings about imports that began and have not finished."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.shared.policies import Policies
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table

NOTES = "state.import."
"""The settings that note an unfinished import begin with this."""
NOTE_SECONDS = 5.0


class ImportState:
    """The note about an import from one database, by its address without a password."""

    def __init__(self, table: Table, source: str):
        self._table = table
        self._source = source
        self._setting = NOTES + sha256(source.encode()).hexdigest()[:16]
        self._noted = table.clock()

    def begin(self) -> None:
        """Note that the import has begun; it may have been stopped before."""
        Policies(self._table).set(self._setting, self._source)

    def note(self, kind: str, done: int, total: int) -> None:
        """Note how far the import is, every few seconds."""
        now = self._table.clock()
        if now - self._noted < NOTE_SECONDS:
            return
        self._noted = now
        noted = {"source": self._source, "kind": kind, "done": done, "total": total, "at": now}
        Policies(self._table).set(self._setting, noted)

    def finish(self) -> None:
        self._table.delete(access_keys.setting_key(self._setting))


def unfinished_imports(table: Table) -> Iterator[str]:
    """The source of each import that has not finished."""
    notes = access_keys.settings_starting(NOTES)
    for item in table.items(Query(access_keys.CONFIG_PK, where=notes.on())):
        noted = item.get("value")
        yield str(noted["source"] if isinstance(noted, dict) else noted)
