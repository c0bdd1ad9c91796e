"""What META says about the volumes of an experiment; see :mod:`~.volumes`."""

from __future__ import annotations

from typing import NamedTuple

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.table.values import Item

VOLUMES = "volumes"
"""Attribute of META: the volumes of an experiment that has, or had, more than one."""
WIDTH = "volumes_open"
"""Attribute of META: how many volumes are to be open, if that was asked for or was needed."""
RESERVE = "volumes_reserve"
"""Attribute of META: bytes without a meaning, for the list to grow if META cannot."""
RUNS, TRACES = "runs", "traces"


class Volume(NamedTuple):
    """One volume of an experiment."""

    experiment_id: str
    number: int = 0

    @property
    def pk(self) -> str:
        return experiment_keys.volume_pk(self.experiment_id, self.number)

    def __str__(self) -> str:
        return self.experiment_id + (f", volume {self.number}" if self.number else "")


class Span(NamedTuple):
    """The first and the last time, in milliseconds, of the runs or traces in a closed volume."""

    first: int
    last: int


NOTHING = Span(2**63 - 1, -(2**63))
"""The span of a volume without runs, or without traces."""
ALWAYS = Span(-(2**63), 2**63 - 1)
"""A span that holds every time: such a volume is always asked."""


class VolumeState(NamedTuple):
    """What META says about a volume: when it was announced and when it closed, in seconds.

    The spans of a closed one are known a while later.
    """

    number: int
    since: int = 0
    closed: int | None = None
    runs: Span | None = None
    traces: Span | None = None

    @classmethod
    def of(cls, value: Item) -> VolumeState:
        spans = (Span(*value[kind]) if kind in value else None for kind in (RUNS, TRACES))
        return cls(value["n"], value["since"], value.get("closed"), *spans)

    def to_value(self) -> Item:
        given = {"closed": self.closed, RUNS: self.runs, TRACES: self.traces}
        return {
            "n": self.number,
            "since": self.since,
            **{
                name: list(value) if isinstance(value, Span) else value
                for name, value in given.items()
                if value is not None
            },
        }


def listed(count: int) -> Item:
    """What META says about the volumes of a new experiment: nothing if there is only one."""
    return {VOLUMES: [VolumeState(n).to_value() for n in range(count)]} if count > 1 else {}


def states_in(meta: Item) -> list[VolumeState]:
    """What META says about the volumes of its experiment."""
    return [VolumeState.of(one) for one in meta[VOLUMES]] if VOLUMES in meta else [VolumeState(0)]


def widened(span: Span, time_ms: int) -> Span:
    """A span that holds a time too."""
    return Span(min(span.first, time_ms), max(span.last, time_ms))
