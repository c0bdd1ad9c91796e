"""Undoing what a call has written before it found a partition full.

A call that writes several items may find in the middle of them that a partition takes no more.
Inside :class:`UndoneIfFull` the table notes what such a call puts: items that were absent, and
items in partitions that are nearly full, for which it reads what was there before. Updates are not
noted: a call makes them last, or undoes them itself.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from mlflow_dynamodbstore.table.contract import Put, is_full
from mlflow_dynamodbstore.table.errors import TableError
from mlflow_dynamodbstore.table.values import Item

if TYPE_CHECKING:
    from mlflow_dynamodbstore.table.table import Table

_logger = logging.getLogger(__name__)

NEARLY_FULL = 0.9
"""How full a partition is when the table reads what a put replaces."""


class Replaced(NamedTuple):
    """A put, and the item that was there before it."""

    table: Table
    put: Put
    before: Item | None

    def undo(self) -> None:
        """Put back what was there before, unless others have changed it since."""
        key = self.table.schema.key_of(self.put.item)
        if self.table.get(key) != self.put.item:
            return
        if self.before is None:
            self.table.delete(key)
        else:
            self.table.put(self.before)


NOTED: ContextVar[list[Replaced] | None] = ContextVar("NOTED", default=None)
"""What the current call has put; None outside of :class:`UndoneIfFull`."""


class UndoneIfFull:
    """What is put in this context is undone when it ends because a partition is full."""

    __slots__ = ("_noted", "_token")
    _token: Token[list[Replaced] | None]

    def __enter__(self) -> None:
        self._noted: list[Replaced] = []
        self._token = NOTED.set(self._noted)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        NOTED.reset(self._token)
        if not self._noted:
            return
        if isinstance(error, TableError) and is_full(error):
            _undo(self._noted)
        elif (outer := NOTED.get()) is not None:
            outer += self._noted


def _undo(noted: list[Replaced]) -> None:
    try:
        for one in reversed(noted):
            one.undo()
    except TableError as error:
        _logger.warning("A call to a full partition could not be undone: %s", error)
