"""The notes in a table's settings about imports that began and have not finished."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from hashlib import sha256

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table

NOTES = "state.import."
"""The settings that note an unfinished import begin with this."""


class ImportState:
    """The note about an import from one database, by its address without a password."""

    def __init__(self, table: Table, source: str):
        self._table = table
        self._source = source
        self._key = access_keys.setting_key(NOTES + sha256(source.encode()).hexdigest()[:16])

    def begin(self) -> None:
        """Note that the import has begun; it may have been stopped before."""
        value = {"source": self._source, "began": int(self._table.clock())}
        self._table.put({"PK": self._key.pk, "SK": self._key.sk, "value": value})

    def finish(self) -> None:
        self._table.delete(self._key)


def unfinished_imports(table: Table) -> Iterator[tuple[str, str]]:
    """The source of each import that has not finished, and when it was begun last."""
    notes = access_keys.settings_starting(NOTES)
    for item in table.items(Query(access_keys.CONFIG_PK, where=notes.on())):
        value = item["value"]
        began = datetime.fromtimestamp(value["began"], timezone.utc)
        yield str(value["source"]), began.strftime("%Y-%m-%d %H:%M UTC")
