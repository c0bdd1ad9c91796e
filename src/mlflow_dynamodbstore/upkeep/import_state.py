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


class ImportState:
    """The note about an import from one database, by its address without a password."""

    def __init__(self, table: Table, source: str):
        self._table = table
        self._source = source
        self._setting = NOTES + sha256(source.encode()).hexdigest()[:16]

    def begin(self) -> None:
        """Note that the import has begun; it may have been stopped before."""
        Policies(self._table).set(self._setting, self._source)

    def finish(self) -> None:
        self._table.delete(access_keys.setting_key(self._setting))


def unfinished_imports(table: Table) -> Iterator[str]:
    """The source of each import that has not finished."""
    notes = access_keys.settings_starting(NOTES)
    for item in table.items(Query(access_keys.CONFIG_PK, where=notes.on())):
        yield str(item.get("value"))
