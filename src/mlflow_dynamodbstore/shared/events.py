"""What the parts of a store tell each other.

A part that raises an event does not know who listens; the store connects them when it is made. All
listeners are called in the caller's thread, in the order in which they were connected, before the
call that raised the event goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Event(Generic[P]):
    """Something that parts may listen to."""

    def __init__(self) -> None:
        self._listeners: list[Callable[P, None]] = []

    def listen(self, listener: Callable[P, None]) -> None:
        """Call ``listener`` whenever this happens."""
        self._listeners.append(listener)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell all listeners that it happens."""
        for listener in self._listeners:
            listener(*args, **kwargs)


@dataclass(frozen=True)
class Events:
    """Every event there is."""
