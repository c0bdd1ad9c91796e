"""Which calls are made on the event loop of a server, and which in a thread.

A file answers most calls in less time than a hop to a thread takes. So calls to a file are made on
the loop as long as they are short. While they are not (a slow disk, a file that other processes
write to, long answers), they are made in threads, but for one in a while that is measured on the
loop. Calls to DynamoDB wait for the network and are always made in threads.
"""

from __future__ import annotations

from mlflow_dynamodbstore.table.table import Table

SHORT_SECONDS = 0.005
NEWEST_WEIGHT = 0.1
MEASURED_EACH = 50  # calls, while they are too slow for the loop


class LoopPace:
    """How long the calls of one kind take on the loop."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._calls = 0

    def is_short(self) -> bool:
        """Whether the next call is made on the loop."""
        self._calls += 1
        return self._seconds < SHORT_SECONDS or self._calls % MEASURED_EACH == 0

    def took(self, seconds: float) -> None:
        """Note how long a call on the loop took."""
        self._seconds += NEWEST_WEIGHT * (seconds - self._seconds)


def is_file(table: Table) -> bool:
    """Whether a table is a file."""
    return table.engine.capabilities.local is not None
