"""Reclaiming bytes that no version points at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from versioned import blobs
from versioned.blobs import Blob
from versioned.errors import InvalidInput
from versioned.home import Home
from versioned.storage import StoredObject

BATCH = 100
DEFAULT_GRACE = timedelta(days=1)


@dataclass(frozen=True)
class Reclaimed:
    """Bytes that were removed, or would be."""

    key: str
    size: int


@dataclass
class Collection:
    """What a collection found and did; after a dry run, what it would have done."""

    dry_run: bool
    reclaimed: list[Reclaimed]
    unfinished: list[str]
    kept: int = 0

    @property
    def bytes(self) -> int:
        return sum(one.size for one in self.reclaimed)


def gc(home: Home, grace: timedelta, dry_run: bool) -> Collection:
    """Remove bytes that nothing has referred to for as long as the grace period.

    Safe while others put and publish, with any grace period and several collections at once. What
    a crash left behind is found and removed by the next one.
    """
    if grace < timedelta(0):
        raise InvalidInput(f"a grace period cannot be negative: {grace}")
    report = Collection(dry_run, [], [])
    place = home.find()
    if place is None:
        return report
    before = home.now - grace
    for batch in _batches(home.storage.list(place.folder)):
        _collect(home, batch, before, report)
    for leftover in home.storage.unfinished(place.folder, before):
        if not dry_run:
            home.storage.discard(leftover)
        report.unfinished.append(leftover)
    return report


def _collect(home: Home, batch: list[StoredObject], before: datetime, report: Collection) -> None:
    named = [(found, blobs.parse_storage_key(found.key)) for found in batch]
    ours = [(found, name) for found, name in named if name is not None]
    rows = home.table.get_many(home.keys.blob(sha256) for _, (sha256, _) in ours)
    for found, (sha256, generation) in ours:
        blob = Blob.from_item(sha256, rows.get(home.keys.blob(sha256)))
        fate = blobs.fate(generation, blob, before)
        if fate == "used" or found.modified_at >= before:
            report.kept += 1
        elif report.dry_run:
            report.reclaimed.append(Reclaimed(found.key, found.size))
        elif fate == "dead" or blobs.condemn(home, sha256, generation, blob):
            home.storage.delete(found.key)
            report.reclaimed.append(Reclaimed(found.key, found.size))
        else:
            report.kept += 1  # somebody came to use it just now


def _batches(objects: Iterator[StoredObject]) -> Iterator[list[StoredObject]]:
    while batch := list(islice(objects, BATCH)):
        yield batch
