"""Filling an empty table from a source, page by page; it can be stopped at any point.

The first write is a note in the table's CONFIG partition: the source, and the position in it. The
position advances when a page is durable, and at the end the note says when that was. A later call
resumes at the position. It may write one page again, which changes nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Value
from mlflow_dynamodbstore.transfer.archive.errors import Refused
from mlflow_dynamodbstore.transfer.archive.sources import (
    ItemFilter,
    Source,
    TableSource,
    address_of,
)
from mlflow_dynamodbstore.upkeep.fill_state import FillProgress, FillState

MOST_AT_ONCE = 1_000
"""The items of one bulk write; a throttled table gets the full retry time for each."""


Progress = Callable[[FillProgress], None]


def require_complete(table: Table) -> None:
    """Raise ``Refused`` for a table whose own filling is not finished."""
    state = FillState.read(table)
    if state is not None and state.is_unfinished:
        raise Refused(
            f"{address_of(table)} is not complete: a transfer from {state.source} into it was "
            "stopped; finish that first"
        )


def require_fillable(table: Table, identity: str) -> FillState | None:
    """The state of a filling from the same source, or None for an empty table.

    Raises ``Refused`` for any other table.
    """
    address = address_of(table)
    if identity == address:
        raise Refused(f"{address} is the source: name another table as the target")
    state = FillState.read(table)
    if state is None:
        _require_empty(table)
    elif state.source != identity:
        part = "part of" if state.is_unfinished else "the contents of"
        raise Refused(f"{address} already holds {part} {state.source}: use an empty table")
    return state


class TableFill:
    """Fills a table from a source, or resumes that. ``total`` is for those who look meanwhile."""

    def __init__(
        self,
        table: Table,
        source: Source,
        progress: Progress = lambda _: None,
        total: int | None = None,
    ):
        self._table = table
        self._source = source
        self._report = progress
        self._holder = secrets.token_hex(8)
        self._noted_by: str | None = None
        self._filter = ItemFilter(table.clock())
        self._total = total
        self.progress = FillProgress()

    def run(self) -> FillProgress:
        """Fill the table. Raises ``Refused`` if it holds anything else."""
        state = require_fillable(self._table, self._source.identity)
        position = None
        if state is not None:
            self._noted_by, self.progress, position = state.holder, state.progress, state.position
            if not state.is_unfinished:
                return self.progress
        self._note(position)
        expired_before = self.progress.expired
        for items, behind in self._source.pages(position):
            kept = self._filter.keep(items)
            for some in batched(kept, MOST_AT_ONCE):
                self._table.write([Put(item) for item in some])
            self.progress.items += len(kept)
            self.progress.moved += len(kept)
            self.progress.expired = expired_before + self._filter.expired
            self._note(behind)
            self._report(self.progress)
        self.progress.ended = int(self._table.clock())
        self._note(None)
        return self.progress

    def _note(self, position: Value) -> None:
        """Note the position, unless another process has resumed since the last note."""
        key = access_keys.fill_state_key()
        item: Item = {
            "PK": key.pk,
            "SK": key.sk,
            "source": self._source.identity,
            "place": position,
            "items": self.progress.items,
            "expired": self.progress.expired,
            "ended": self.progress.ended,
            "total": self._total,
            "holder": self._holder,
        }
        holder = Attr("holder")
        unchanged = holder.not_exists() if self._noted_by is None else holder.eq(self._noted_by)
        try:
            self._table.put(item, condition=unchanged)
        except ConditionFailed as error:
            raise Refused(
                f"another process is filling {address_of(self._table)} from the same source: "
                "wait for it"
            ) from error
        self._noted_by = self._holder


def _require_empty(table: Table) -> None:
    item_filter = ItemFilter(table.clock())
    for items, _ in TableSource(table, segments=1).pages():
        for item in item_filter.keep(items):
            raise Refused(
                f"{address_of(table)} already holds data, such as {item['SK']} in {item['PK']}: "
                "use an empty table, which no server has used"
            )
