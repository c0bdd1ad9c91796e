"""What the parts of a store tell each other.

A part that raises an event does not know who listens; the store connects them when it is made. All
listeners are called in the caller's thread, in the order in which they were connected, before the
call that raised the event goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, ParamSpec, TypeVar

from mlflow_dynamodbstore.shared.places import TracePlace
from mlflow_dynamodbstore.table.values import Key

P = ParamSpec("P")
R = TypeVar("R")


class Event(Generic[P, R]):
    """Something that parts may listen to."""

    def __init__(self) -> None:
        self._listeners: list[Callable[P, R]] = []

    def listen(self, listener: Callable[P, R]) -> None:
        """Call ``listener`` whenever this happens."""
        self._listeners.append(listener)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> list[R]:
        """Tell all listeners that it happens; returns what they answer."""
        return [listener(*args, **kwargs) for listener in self._listeners]


@dataclass(frozen=True)
class Events:
    """Every event there is, who raises it and who listens."""

    experiment_not_active: Event[[str], None] = field(default_factory=Event)
    """An experiment, by its id, was deleted, removed or not found.

    Raised by the lookup of experiments. Traces forget that it was active.
    """
    run_deleted: Event[[str], None] = field(default_factory=Event)
    """A run, by its id, was deleted and may be restored.

    Raised by runs and experiments. Assessments of traces that came from the run are removed.
    """
    run_removed: Event[[str], None] = field(default_factory=Event)
    """A run, by its id, is removed for good; raised before and after its own item is deleted.

    Raised by runs. Issues that were found by the run no longer name it.
    """
    trace_described: Event[[str, Mapping[str, str]], None] = field(default_factory=Event)
    """A trace of an experiment is about to be written with this metadata.

    Raised by traces. The gateway notes which experiments hold traces of its calls.
    """
    traces_deleting: Event[[Sequence[TracePlace]], None] = field(default_factory=Event)
    """Traces are about to be deleted.

    Raised by traces. Review queues remove them.
    """
    trace_redating: Event[[TracePlace], list[Key]] = field(default_factory=Event)
    """A trace is about to get another expiry; listeners name the items that expire with it.

    Raised by traces. Review queues name the items by which the trace is in them.
    """
