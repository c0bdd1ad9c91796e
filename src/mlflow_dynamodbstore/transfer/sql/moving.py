"""Moving all entities of some kinds from one place to another, and comparing both afterwards."""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from mlflow_dynamodbstore.tracking.points import Point
from mlflow_dynamodbstore.transfer.sql.entities import Entity, EntityKey, Side, differences
from mlflow_dynamodbstore.transfer.sql.numbers import in_columns

MOST_FINDINGS = 100
"""Findings that are kept; further ones are counted."""
NAMED_DIFFERENCES = 3
EXPERIMENTS = "experiments"


@dataclass(frozen=True)
class Kind:
    """A kind of entity with its side in the place that is read and in the one that is written."""

    name: str
    source: Side
    target: Side


@dataclass
class Tally:
    """What became of the entities of one kind."""

    found: int = 0
    written: int = 0
    same: int = 0
    merged: int = 0
    conflicts: int = 0
    refused: int = 0
    held_back: int = 0


@dataclass
class Comparison:
    """How the entities of one kind compare."""

    compared: int = 0
    same: int = 0
    different: int = 0
    missing: int = 0


@dataclass(frozen=True)
class Finding:
    """One entity that was not moved, or is not the same."""

    kind: str
    name: str
    sentence: str


@dataclass
class Findings:
    """The first findings, and how many there are."""

    first: list[Finding] = field(default_factory=list)
    total: int = 0

    def add(self, kind: str, entity: Entity, sentence: str) -> None:
        self.total += 1
        if len(self.first) < MOST_FINDINGS:
            self.first.append(Finding(kind, str(entity), sentence))


Progress = Callable[[str, int], None]
"""Is told the kind and how many of it are done."""


def _silent(kind: str, done: int) -> None:
    del kind, done


# --- moving -------------------------------------------------------------------------------------


class Move:
    """Moves what is not there, leaves alone what is, and names what is there and different."""

    def __init__(self, progress: Progress = _silent):
        self.findings = Findings()
        self.tallies: dict[str, Tally] = {}
        self._progress = progress
        self._held_back: set[str] = set()

    def move(self, kind: Kind) -> None:
        """Move the entities of one kind; experiments come before what lies in them."""
        tally = self.tallies[kind.name] = Tally()
        for page in kind.source.pages():
            tally.found += len(page)
            self._move_page(kind, tally, page)
            self._progress(kind.name, tally.found)

    def _move_page(self, kind: Kind, tally: Tally, page: Sequence[Entity]) -> None:
        wanted = [entity for entity in page if entity.experiment_id not in self._held_back]
        tally.held_back += len(page) - len(wanted)
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

    def _compare(self, kind: Kind, tally: Tally, entity: Entity, there: Entity) -> None:
        if kind.target.accepts(entity, there):
            tally.same += 1
        elif kind.target.merge(entity, there):
            tally.merged += 1
        else:
            tally.conflicts += 1
            self._leave(kind, entity, f"is there and different: {_named(entity, there)}")

    def _leave(self, kind: Kind, entity: Entity, sentence: str) -> None:
        self.findings.add(kind.name, entity, sentence)
        if kind.name == EXPERIMENTS:
            # What lies in it must not get into another experiment.
            self._held_back.add(str(entity.key[0]))


# --- verifying ----------------------------------------------------------------------------------


class Verification:
    """Reads both places and compares what the one has with what the other has of it."""

    def __init__(self, progress: Progress = _silent):
        self.findings = Findings()
        self.comparisons: dict[str, Comparison] = {}
        self._progress = progress

    def verify(self, kind: Kind) -> None:
        """Compare the entities of one kind, with their histories."""
        comparison = self.comparisons[kind.name] = Comparison()
        for page in kind.source.pages():
            there = kind.target.read(page)
            here = {entity.key: entity for entity in page if entity.key in there}
            told_apart = dict(_other_histories(kind, list(here.values())))
            for entity in page:
                comparison.compared += 1
                self._verify(kind, comparison, entity, there.get(entity.key), told_apart)
            self._progress(kind.name, comparison.compared)

    def _verify(
        self,
        kind: Kind,
        comparison: Comparison,
        entity: Entity,
        there: Entity | None,
        histories: dict[EntityKey, str],
    ) -> None:
        if there is None:
            comparison.missing += 1
            self.findings.add(kind.name, entity, "is missing")
        elif not kind.target.accepts(entity, there):
            comparison.different += 1
            self.findings.add(kind.name, entity, f"differs: {_named(entity, there)}")
        elif entity.key in histories:
            comparison.different += 1
            self.findings.add(kind.name, entity, histories[entity.key])
        else:
            comparison.same += 1


def _other_histories(kind: Kind, entities: Sequence[Entity]) -> Iterator[tuple[EntityKey, str]]:
    """The runs whose histories are not the same on both sides."""
    here, there = (_digests(side, entities) for side in (kind.source, kind.target))
    for run_id, name in sorted(here.keys() | there.keys()):
        one, other = (digests.get((run_id, name), (0, b"")) for digests in (here, there))
        if one != other:
            yield (run_id,), f"differs: history of {name}: {one[0]:,} points and {other[0]:,}"


def _digests(side: Side, runs: Sequence[Entity]) -> dict[tuple[str, str], tuple[int, bytes]]:
    """How many points each metric has, and a digest of them in their order."""
    counts: dict[tuple[str, str], int] = {}
    sums: dict[tuple[str, str], hashlib.blake2b] = {}
    for run_id, name, points in side.histories(runs) if runs else ():
        metric = run_id, name
        digest = sums.setdefault(metric, hashlib.blake2b(digest_size=16))
        digest.update(_packed(points))
        counts[metric] = counts.get(metric, 0) + len(points)
    return {metric: (count, sums[metric].digest()) for metric, count in counts.items()}


def _packed(points: Sequence[Point]) -> bytes:
    """Points as bytes, the same for what is the same to MLflow's database."""
    steps, times, values = zip(*points, strict=True)
    if not math.isfinite(sum(values)):
        numbers = [in_columns(value) for value in values]
        nans = bytes(is_nan for _, is_nan in numbers)
        values = tuple(number for number, _ in numbers)
    else:
        nans = bytes(len(points))
    count = len(points)
    # To add 0.0 makes 0.0 of -0.0.
    return nans + struct.pack(
        f"<{count}q{count}q{count}d", *steps, *times, *(v + 0.0 for v in values)
    )


def _named(entity: Entity, there: Entity) -> str:
    found = list(islice(differences(entity, there), NAMED_DIFFERENCES + 1))
    more = "; …" if len(found) > NAMED_DIFFERENCES else ""
    return "; ".join(found[:NAMED_DIFFERENCES]) + more
