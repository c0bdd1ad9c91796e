"""What is moved, and the interface of the two stores it is moved between."""

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
NOT_SHOWN = frozenset({"password_hash", "encrypted_value", "wrapped_dek", "secret"})
"""Values that are compared and never printed."""
NOT_EXPORTABLE = "not exportable"
"""A hint: why MLflow's database cannot hold the entity."""
NOT_IMPORTABLE = "not importable"
"""A hint: why the entity cannot be imported as the import was asked to."""
OTHER_NAME = "Import with --prefix or --into-workspace, or rename one of the two."
"""What to do when something else has a name."""


@dataclass
class Entity:
    """One entity with everything that belongs to it, except the history of metrics.

    ``values`` are compared. ``hints`` are what one store knows beyond that, for the other to use
    when it writes.
    """

    key: EntityKey
    values: dict[str, Value]
    hints: dict[str, Value] = field(default_factory=dict)

    @property
    def experiment_id(self) -> str | None:
        """The experiment it lies in, if any."""
        return self.values.get("experiment_id")

    def __str__(self) -> str:
        return "/".join(str(part) for part in self.key)


class HistoryChunk(NamedTuple):
    """Points of one metric of a run, which follow those of the chunk before."""

    run_id: str
    name: str
    points: list[Point]


class EntitySource(ABC):
    """Reads all entities of one kind.

    ``not_moved`` counts what the entities read so far have that the other side cannot hold.
    """

    not_moved: Counter[str]

    @abstractmethod
    def count(self) -> int:
        """How many entities there are."""

    @abstractmethod
    def pages(self) -> Iterator[list[Entity]]:
        """All entities, a few at a time."""

    def histories(self, runs: Sequence[Entity]) -> Iterator[HistoryChunk]:
        """The metric histories of runs: the points of each metric in order and together."""
        del runs
        return iter(())


class EntityStore(EntitySource):
    """Reads and writes the entities of one kind, in a database or in a table."""

    @abstractmethod
    def read(self, like: Sequence[Entity]) -> dict[EntityKey, Entity]:
        """The entities with the keys of some entities of the other store, if they exist."""

    @abstractmethod
    def write(self, entities: Sequence[Entity], source: EntitySource) -> None:
        """Write entities that do not exist; can be repeated if interrupted."""

    def refusals(self, entities: Sequence[Entity]) -> dict[EntityKey, str]:
        """Why some entities that do not exist cannot be written."""
        why = ((entity.key, self.refusal(entity)) for entity in entities)
        return {key: sentence for key, sentence in why if sentence}

    def refusal(self, entity: Entity) -> str | None:
        """Why an entity cannot be written, as far as it alone can tell."""
        del entity
        return None

    def accepts(self, entity: Entity, existing: Entity) -> bool:
        """Whether the existing entity holds everything that an entity holds."""
        return entity.values == existing.values

    def merge(self, entity: Entity, existing: Entity) -> bool:
        """Merge an entity into the existing one; False when that is not possible."""
        del entity, existing
        return False

    def differences(self, entity: Entity, existing: Entity) -> Iterator[str]:
        """Where two entities differ, as far as that helps a person."""
        return differences(entity, existing)

    def advice(self, entity: Entity, existing: Entity) -> str:
        """What a person can do about an entity that exists and differs; empty when unknown."""
        del entity, existing
        return ""


def differences(one: Entity, other: Entity) -> Iterator[str]:
    """Where two entities differ, as ``name: this, not that``."""
    yield from _differences("", one.values, other.values)


def _differences(at: str, one: Mapping[Any, Value], other: Mapping[Any, Value]) -> Iterator[str]:
    for name in sorted({*one, *other}, key=repr):
        ours, theirs = one.get(name, _NOTHING), other.get(name, _NOTHING)
        if ours == theirs:
            continue
        path = f"{at}.{name}" if at else str(name)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            yield from _differences(path, ours, theirs)
        elif name in NOT_SHOWN:
            yield f"{path}: another one"
        else:
            yield f"{path}: {_shown(ours)}, not {_shown(theirs)}"


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


_NOTHING = _Nothing()


def _shown(value: Value) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
