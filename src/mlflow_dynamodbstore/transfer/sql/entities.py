"""What is moved, and the two places it is moved between."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mlflow_dynamodbstore.table.values import Value
from mlflow_dynamodbstore.tracking.points import Point

EntityKey = tuple[Any, ...]
LONGEST_VALUE = 60
UNHELD = "unheld"
"""A hint: why MLflow's database cannot hold the entity."""


@dataclass
class Entity:
    """One thing with all that belongs to it, but for the history of metrics.

    ``values`` is what is compared. ``hints`` is what a side knows beside that and the other may
    use when it writes.
    """

    key: EntityKey
    values: dict[str, Value]
    hints: dict[str, Value] = field(default_factory=dict)

    @property
    def experiment_id(self) -> str | None:
        """The experiment it lies in, if it lies in one."""
        return self.values.get("experiment_id")

    def __str__(self) -> str:
        return "/".join(str(part) for part in self.key)


class Points(NamedTuple):
    """Points of one metric of one run, which follow those that came before."""

    run_id: str
    name: str
    points: list[Point]


class Side(ABC):
    """The entities of one kind in one of the two places.

    ``left`` counts what they have, as far as they were read, that the other place cannot hold.
    """

    left: Counter[str]

    @abstractmethod
    def count(self) -> int:
        """How many there are."""

    @abstractmethod
    def pages(self) -> Iterator[list[Entity]]:
        """All of them, a few at a time."""

    @abstractmethod
    def read(self, like: Sequence[Entity]) -> dict[EntityKey, Entity]:
        """Those with the keys of some entities of the other side; absent ones are left out."""

    @abstractmethod
    def write(self, entities: Sequence[Entity], source: Side) -> None:
        """Write entities that are not there; interrupted, it can be done again."""

    def refusals(self, entities: Sequence[Entity]) -> dict[EntityKey, str]:  # noqa: ARG002
        """Why some entities that are not there cannot be held here."""
        return {}

    def accepts(self, entity: Entity, there: Entity) -> bool:
        """Whether what is here says all that an entity says."""
        return entity.values == there.values

    def merge(self, entity: Entity, there: Entity) -> bool:  # noqa: ARG002 - for those who can
        """Bring what is here and the entity together; False when they stay apart."""
        return False

    def histories(self, runs: Sequence[Entity]) -> Iterator[Points]:  # noqa: ARG002 - runs only
        """The history of the metrics of runs, each metric's points in order and together."""
        return iter(())


def differences(one: Entity, other: Entity) -> Iterator[str]:
    """What two entities do not agree on, as ``name: this, not that``."""
    yield from _differences("", one.values, other.values)


def _differences(at: str, one: Mapping[Any, Value], other: Mapping[Any, Value]) -> Iterator[str]:
    for name in sorted({*one, *other}, key=repr):
        ours, theirs = one.get(name, _ABSENT), other.get(name, _ABSENT)
        if ours == theirs:
            continue
        path = f"{at}.{name}" if at else str(name)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            yield from _differences(path, ours, theirs)
        else:
            yield f"{path}: {_shown(ours)}, not {_shown(theirs)}"


class _Absent:
    def __repr__(self) -> str:
        return "nothing"


_ABSENT = _Absent()


def _shown(value: Value) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
