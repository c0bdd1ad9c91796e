"""Undoing what a call has written before it found a partition full.

A call that writes several items may find in the middle of them that a partition takes no more.
Inside :class:`UndoneIfFull` the table notes what such a call puts: items that were absent, and
items in partitions that are nearly full, for which it reads what was there before. Updates are not
noted: a call makes them last, or undoes them itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TypeAlias

from mlflow_dynamodbstore.table.contract import is_full
from mlflow_dynamodbstore.table.errors import TableError

_logger = logging.getLogger(__name__)

NEARLY_FULL = 0.9
"""How full a partition is when the table reads what a put replaces."""
MOST_COMPARED = 100
"""How many attributes the condition of an undo compares; an expression has few operators."""

Undo: TypeAlias = Callable[[], None]
"""Puts back what was there before a put, unless others have changed it since."""

NOTED: ContextVar[list[Undo] | None] = ContextVar("NOTED", default=None)
"""How to undo what the current call has put; None outside of :class:`UndoneIfFull`."""


class UndoneIfFull:
    """What is put in this context is undone when it ends because a partition is full."""

    __slots__ = ("_noted", "_token")
    _token: Token[list[Undo] | None]

    def __enter__(self) -> None:
        self._noted: list[Undo] = []
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


def _undo(noted: list[Undo]) -> None:
    try:
        for one in reversed(noted):
            one()
    except TableError as error:
        _logger.warning("A call to a full partition could not be undone: %s", error)
