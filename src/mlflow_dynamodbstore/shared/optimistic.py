"""Optimistic change: read, decide, write on a condition, and again when another was faster.

There are no locks. A change is decided by what was read, and written on the condition that this
still holds. The bound on attempts is not the one on retries over the network.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import TEMPORARILY_UNAVAILABLE

from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled

T = TypeVar("T")

MOST_TRIES = 50
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.25


class Outdated(Exception):
    """What a change was decided by has changed since: decide again."""


def optimistically(what: str, attempt: Callable[[], T]) -> T:
    """The result of an attempt, repeated while the conditions of its writes do not hold.

    An attempt that handles refusals itself raises :class:`Outdated` to be repeated. After
    ``MOST_TRIES`` the error says that ``what`` ("Trace with ID 'tr-1'") is too busy.
    """
    for n in range(MOST_TRIES):
        try:
            return attempt()
        except (ConditionFailed, Outdated):
            pass
        except TransactionCancelled as cancelled:
            if not cancelled.any_refused:
                raise
        _pause(n)
    raise too_busy(what)


def too_busy(what: str) -> MlflowException:
    """The error for something that others change faster than it can be read."""
    return MlflowException(
        f"{what} is being changed by too many others; try again.", TEMPORARILY_UNAVAILABLE
    )


def _pause(tries: int) -> None:
    """Wait for others, a random time: none after the first try, then longer and longer."""
    if tries:
        time.sleep(random.uniform(0, min(LONGEST_PAUSE, FIRST_PAUSE * 2**tries)))
