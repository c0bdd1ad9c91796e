"""Putting a source into an empty table, page by page, such that it can be stopped at any point.

The first thing written is a note in the table's CONFIG partition: what fills it, and how far that
has come. It moves on when a page is durable, and in the end says when all were. Who finds it
unfinished goes on from there; a page that was written and not noted is written again, which
changes nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Value
from mlflow_dynamodbstore.transfer.archive.errors import Refused
from mlflow_dynamodbstore.transfer.archive.sources import Sieve, Source, TableSource, address_of
from mlflow_dynamodbstore.upkeep.fill_state import FillProgress, FillState

MOST_AT_ONCE = 1_000
"""Items of one bulk write: a table that asks for patience is given it for each of these."""


Progress = Callable[[FillProgress], None]


def require_complete(table: Table) -> None:
    """Raise ``Refused`` for a table that is itself still being filled."""
    state = FillState.read(table)
    if state is not None and state.is_unfinished:
        raise Refused(
            f"{address_of(table)} is not complete: a transfer from {state.source} into it was "
            "stopped; finish that first"
        )


def require_fillable(table: Table, identity: str) -> FillState | None:
    """The note that a filling from the same source has left, or None for an empty table.

    Raises ``Refused`` for any other table.
    """
    address = address_of(table)
    if identity == address:
        raise Refused(f"{address} is what is to be read: name another table to fill")
    state = FillState.read(table)
    if state is None:
        _require_empty(table)
    elif state.source != identity:
        part = "part of" if state.is_unfinished else "the contents of"
        raise Refused(f"{address} holds {part} {state.source} already: use an empty table")
    return state


class Filling:
    """Fills one table from one source; begun again after it was stopped, it goes on."""

    def __init__(self, table: Table, source: Source, progress: Progress = lambda _: None):
        self._table = table
        self._source = source
        self._progress = progress
        self._holder = secrets.token_hex(8)
        self._noted: str | None = None
        self._sieve = Sieve(table.clock())
        self.filled = FillProgress()

    def run(self) -> FillProgress:
        """Fill the table. Raises ``Refused`` for one that holds anything else."""
        state = require_fillable(self._table, self._source.identity)
        place = None
        if state is not None:
            self._noted, self.filled, place = state.holder, state.progress, state.position
            if not state.is_unfinished:
                return self.filled
        self._note(place)
        before = self.filled.expired
        for items, behind in self._source.pages(place):
            kept = self._sieve.keep(items)
            for start in range(0, len(kept), MOST_AT_ONCE):
                self._table.write([Put(item) for item in kept[start : start + MOST_AT_ONCE]])
            self.filled.items += len(kept)
            self.filled.moved += len(kept)
            self.filled.expired = before + self._sieve.expired
            self._note(behind)
            self._progress(self.filled)
        self.filled.ended = int(self._table.clock())
        self._note(None)
        return self.filled

    def _note(self, place: Value) -> None:
        """Say how far it has come, unless somebody else has gone on from the last note."""
        key = access_keys.fill_state_key()
        item: Item = {
            "PK": key.pk,
            "SK": key.sk,
            "source": self._source.identity,
            "place": place,
            "items": self.filled.items,
            "expired": self.filled.expired,
            "ended": self.filled.ended,
            "holder": self._holder,
        }
        holder = Attr("holder")
        unchanged = holder.not_exists() if self._noted is None else holder.eq(self._noted)
        try:
            self._table.put(item, condition=unchanged)
        except ConditionFailed as error:
            raise Refused(
                f"another process fills {address_of(self._table)} from the same source: "
                "let it finish"
            ) from error
        self._noted = self._holder


def _require_empty(table: Table) -> None:
    sieve = Sieve(table.clock())
    for items, _ in TableSource(table, segments=1).pages():
        for item in sieve.keep(items):
            raise Refused(
                f"{address_of(table)} holds data already, such as {item['SK']} in {item['PK']}: "
                "take a table that is empty, one that no server has used"
            )
