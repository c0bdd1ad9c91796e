"""Moving the entities of a kind from one store to another, and comparing both afterwards."""

from __future__ import annotations

import hashlib
import math
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from mlflow_dynamodbstore.tracking.points import Point
from mlflow_dynamodbstore.transfer.sql.column_values import to_columns
from mlflow_dynamodbstore.transfer.sql.entities import (
    NOT_IMPORTABLE,
    Entity,
    EntityKey,
    EntitySource,
    EntityStore,
)
from mlflow_dynamodbstore.transfer.sql.references import DATASETS, RECORDS, experiments_of

MOST_FINDINGS = 100
"""How many findings of a kind are kept; further ones are only counted."""
NAMED_DIFFERENCES = 3
EXPERIMENTS = "experiments"


@dataclass(frozen=True)
class Kind:
    """A kind of entity, with the store that is read and the one that is written."""

    name: str
    source: EntitySource
    target: EntityStore


@dataclass
class Tally:
    """How many entities of one kind were moved, and what became of the others."""

    found: int = 0
    written: int = 0
    same: int = 0
    merged: int = 0
    conflicts: int = 0
    refused: int = 0
    held_back: int = 0


@dataclass
class VerificationTally:
    """How many entities of one kind are the same in both stores."""

    compared: int = 0
    same: int = 0
    different: int = 0
    missing: int = 0


@dataclass(frozen=True)
class Finding:
    """One entity that was not moved, or differs."""

    kind: str
    name: str
    sentence: str
    title: str = ""
    """The name that people gave it, where that is not its key."""


@dataclass
class Findings:
    """The first findings of each kind, and the number of all."""

    first: list[Finding] = field(default_factory=list)
    totals: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return self.totals.total()

    def add(self, kind: str, entity: Entity, sentence: str) -> None:
        self.totals[kind] += 1
        if self.totals[kind] <= MOST_FINDINGS:
            self.first.append(Finding(kind, str(entity), sentence, _title(entity)))


def _title(entity: Entity) -> str:
    name = str(entity.values.get("name") or "")
    return "" if name in map(str, entity.key) else name


Progress = Callable[[str, int], None]
"""Is called with a kind and how many of its entities are done."""


def _silent(kind: str, done: int) -> None:
    del kind, done


# --- moving -------------------------------------------------------------------------------------


class Move:
    """Moves the entities that do not exist in the target, and reports those that differ there."""

    def __init__(self, progress: Progress = _silent):
        self.findings = Findings()
        self.tallies: dict[str, Tally] = {}
        self._progress = progress
        self.held_back: dict[str, Counter[str]] = {}
        """How many entities of each kind were left with each experiment that was left."""
        self._left_datasets: set[EntityKey] = set()

    def move(self, kind: Kind) -> None:
        """Move the entities of one kind. Experiments must come before the entities in them."""
        tally = self.tallies[kind.name] = Tally()
        for page in kind.source.pages():
            tally.found += len(page)
            self._move_page(kind, tally, page)
            self._progress(kind.name, tally.found)

    def _move_page(self, kind: Kind, tally: Tally, page: Sequence[Entity]) -> None:
        wanted = [entity for entity in page if not self._holds_back(kind, entity)]
        tally.held_back += len(page) - len(wanted)
        for entity in wanted:
            if NOT_IMPORTABLE in entity.hints:
                tally.refused += 1
                self._leave(kind, entity, f"cannot be moved: {entity.hints[NOT_IMPORTABLE]}")
        wanted = [entity for entity in wanted if NOT_IMPORTABLE not in entity.hints]
        known = kind.target.read(wanted)
        fresh = [entity for entity in wanted if entity.key not in known]
        for entity in wanted:
            if entity.key in known:
                self._compare(kind, tally, entity, known[entity.key])
        refusals = kind.target.refusals(fresh) if fresh else {}
        for entity in fresh:
            if entity.key in refusals:
                tally.refused += 1
                self._leave(kind, entity, f"cannot be moved: {refusals[entity.key]}")
        movable = [entity for entity in fresh if entity.key not in refusals]
        if movable:
            kind.target.write(movable, kind.source)
        tally.written += len(movable)

    def _compare(self, kind: Kind, tally: Tally, entity: Entity, existing: Entity) -> None:
        if kind.target.accepts(entity, existing):
            tally.same += 1
        elif kind.target.merge(entity, existing):
            tally.merged += 1
        else:
            tally.conflicts += 1
            advice = kind.target.advice(entity, existing)
            differing = f"exists and differs: {_named(kind, entity, existing)}"
            self._leave(kind, entity, f"{differing}. {advice}" if advice else differing)

    def _holds_back(self, kind: Kind, entity: Entity) -> bool:
        """Whether an entity must be left because of what it lies in or refers to."""
        if kind.name == RECORDS:
            return (entity.values["dataset_id"],) in self._left_datasets
        left = [one for one in experiments_of(kind.name, entity) if one in self.held_back]
        for experiment_id in left:
            self.held_back[experiment_id][kind.name] += 1
        if left and kind.name == DATASETS:
            self._left_datasets.add(entity.key)
        return bool(left)

    def _leave(self, kind: Kind, entity: Entity, sentence: str) -> None:
        self.findings.add(kind.name, entity, sentence)
        if kind.name == DATASETS:
            self._left_datasets.add(entity.key)
        if kind.name == EXPERIMENTS:
            # The entities in it must not get into another experiment.
            self.held_back[str(entity.key[0])] = Counter()


# --- verifying ----------------------------------------------------------------------------------


class Verification:
    """Compares the entities of the source with those of the target."""

    def __init__(self, progress: Progress = _silent):
        self.findings = Findings()
        self.tallies: dict[str, VerificationTally] = {}
        self._progress = progress

    def verify(self, kind: Kind) -> None:
        """Compare the entities of one kind, with their histories."""
        tally = self.tallies[kind.name] = VerificationTally()
        for page in kind.source.pages():
            existing = kind.target.read(page)
            in_both = [(one, existing[one.key]) for one in page if one.key in existing]
            histories = dict(_differing_histories(kind, in_both))
            for entity in page:
                tally.compared += 1
                self._verify(kind, tally, entity, existing.get(entity.key), histories)
            self._progress(kind.name, tally.compared)

    def _verify(
        self,
        kind: Kind,
        tally: VerificationTally,
        entity: Entity,
        existing: Entity | None,
        histories: dict[EntityKey, str],
    ) -> None:
        if existing is None:
            tally.missing += 1
            self.findings.add(kind.name, entity, "is missing")
        elif not kind.target.accepts(entity, existing):
            tally.different += 1
            self.findings.add(kind.name, entity, f"differs: {_named(kind, entity, existing)}")
        elif entity.key in histories:
            tally.different += 1
            self.findings.add(kind.name, entity, histories[entity.key])
        else:
            tally.same += 1


def _differing_histories(
    kind: Kind, in_both: Sequence[tuple[Entity, Entity]]
) -> Iterator[tuple[EntityKey, str]]:
    """The runs whose histories differ, and how, given each as the source and the target have it."""
    stores = (kind.source, kind.target)
    both = [_digests(store, [pair[n] for pair in in_both]) for n, store in enumerate(stores)]
    for run_id, name in sorted(both[0].keys() | both[1].keys()):
        one, other = (digests.get((run_id, name), (0, b"")) for digests in both)
        if one != other:
            yield (run_id,), f"differs: history of {name}: {one[0]:,} points and {other[0]:,}"


def _digests(
    store: EntitySource, runs: Sequence[Entity]
) -> dict[tuple[str, str], tuple[int, bytes]]:
    """How many points each metric has, and a digest of them in order."""
    counts: dict[tuple[str, str], int] = {}
    sums: dict[tuple[str, str], hashlib.blake2b] = {}
    for run_id, name, points in store.histories(runs) if runs else ():
        metric = run_id, name
        digest = sums.setdefault(metric, hashlib.blake2b(digest_size=16))
        digest.update(_packed(points))
        counts[metric] = counts.get(metric, 0) + len(points)
    return {metric: (count, sums[metric].digest()) for metric, count in counts.items()}


def _packed(points: Sequence[Point]) -> bytes:
    """Points as bytes; equal for points that MLflow's database cannot tell apart."""
    steps, times, values = zip(*points, strict=True)
    if not math.isfinite(sum(values)):
        numbers = [to_columns(value) for value in values]
        nans = bytes(is_nan for _, is_nan in numbers)
        values = tuple(number for number, _ in numbers)
    else:
        nans = bytes(len(points))
    count = len(points)
    # Adding 0.0 turns -0.0 into 0.0.
    return nans + struct.pack(
        f"<{count}q{count}q{count}d", *steps, *times, *(v + 0.0 for v in values)
    )


def _named(kind: Kind, entity: Entity, existing: Entity) -> str:
    """The first differences of two entities."""
    found = list(islice(kind.target.differences(entity, existing), NAMED_DIFFERENCES + 1))
    more = "; …" if len(found) > NAMED_DIFFERENCES else ""
    return "; ".join(found[:NAMED_DIFFERENCES]) + more
