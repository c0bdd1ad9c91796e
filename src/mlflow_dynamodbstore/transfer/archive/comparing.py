"""Whether two sources hold the same, and where not, which keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.transfer.archive.lines import item_line
from mlflow_dynamodbstore.transfer.archive.sources import Sieve, Source
from mlflow_dynamodbstore.transfer.archive.tally import Tally, digest_of, group_of

MOST_DIFFERENCES = 10
_MOST_GROUPS = 16

Side = Literal["first", "second"]
Progress = Callable[[Side, int], None]


class Difference(NamedTuple):
    """A key whose item is on one side only, or not the same on both."""

    key: Key
    where: Literal["first only", "second only", "both"]


@dataclass
class Comparison:
    """What both sides hold, and the first keys that differ."""

    first: Tally
    second: Tally
    differences: list[Difference] = field(default_factory=list)

    @property
    def is_same(self) -> bool:
        return not self.differences

    @property
    def families(self) -> list[tuple[str, int, int, bool]]:
        """Each family, how many items both sides have of it, and whether they are the same."""
        return self.first.families(self.second)


def compare(
    first: Source, second: Source, now: float, progress: Progress = lambda _side, _items: None
) -> Comparison:
    """Read two sources whole and compare what has not expired.

    Each is read once; where they differ, once more, to find the first keys that do. No more is
    held in memory than a page, the sums, and the keys of a few groups.
    """
    found = Comparison(
        _tally(first, now, lambda items: progress("first", items)),
        _tally(second, now, lambda items: progress("second", items)),
    )
    groups = found.first.differing_groups(found.second)
    if groups:
        wanted = frozenset(groups[:_MOST_GROUPS])
        found.differences = _differences(
            _digests(first, now, wanted), _digests(second, now, wanted)
        )
    return found


def _tally(source: Source, now: float, progress: Callable[[int], None]) -> Tally:
    tally = Tally()
    for items in _alive(source, now):
        for item in items:
            tally.add(item)
        progress(tally.total)
    return tally


def _digests(source: Source, now: float, groups: frozenset[int]) -> dict[Key, int]:
    """The digests of the items in some groups."""
    keyed = ((Key(item["PK"], item["SK"]), item) for items in _alive(source, now) for item in items)
    return {key: digest_of(item_line(item)) for key, item in keyed if group_of(key) in groups}


def _differences(first: dict[Key, int], second: dict[Key, int]) -> list[Difference]:
    differing = [key for key in {*first, *second} if first.get(key) != second.get(key)]
    return [
        Difference(
            key,
            "second only" if key not in first else "first only" if key not in second else "both",
        )
        for key in sorted(differing)[:MOST_DIFFERENCES]
    ]


def _alive(source: Source, now: float) -> Iterator[list[Item]]:
    sieve = Sieve(now)
    for items, _ in source.pages():
        yield sieve.keep(items)
