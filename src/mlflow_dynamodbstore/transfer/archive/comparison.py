"""Comparing two sources: whether they hold the same items, and which keys differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.transfer.archive.digests import DigestSums, digest_of, group_of
from mlflow_dynamodbstore.transfer.archive.lines import item_line
from mlflow_dynamodbstore.transfer.archive.sources import ItemFilter, Source

MOST_DIFFERENCES = 10
_MOST_GROUPS = 16

Which = Literal["first", "second"]
Progress = Callable[[Which, int], None]


class Difference(NamedTuple):
    """A key whose item exists in one source only, or differs."""

    key: Key
    where: Literal["first only", "second only", "both"]


@dataclass
class Comparison:
    """What two sources hold, and the first keys that differ."""

    first: DigestSums
    second: DigestSums
    differences: list[Difference] = field(default_factory=list)

    @property
    def is_same(self) -> bool:
        return not self.differences

    @property
    def families(self) -> list[tuple[str, int, int, bool]]:
        """Each family, how many items of it both have, and whether they are the same."""
        return self.first.families(self.second)


def compare(
    first: Source, second: Source, now: float, progress: Progress = lambda _which, _items: None
) -> Comparison:
    """Read two whole sources, and compare the items that have not expired.

    Each source is read once, and a second time if they differ, to find the first keys that do.
    Memory holds a page, the sums, and the keys of a few groups.
    """
    found = Comparison(
        _sum_up(first, now, lambda items: progress("first", items)),
        _sum_up(second, now, lambda items: progress("second", items)),
    )
    groups = found.first.differing_groups(found.second)
    if groups:
        wanted = frozenset(groups[:_MOST_GROUPS])
        found.differences = _differences(
            _digests(first, now, wanted), _digests(second, now, wanted)
        )
    return found


def _sum_up(source: Source, now: float, progress: Callable[[int], None]) -> DigestSums:
    sums = DigestSums()
    for items in _unexpired(source, now):
        for item in items:
            sums.add(item)
        progress(sums.total)
    return sums


def _digests(source: Source, now: float, groups: frozenset[int]) -> dict[Key, int]:
    """The digests of the items in some groups."""
    keyed = (
        (Key(item["PK"], item["SK"]), item) for items in _unexpired(source, now) for item in items
    )
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


def _unexpired(source: Source, now: float) -> Iterator[list[Item]]:
    item_filter = ItemFilter(now)
    for items, _ in source.pages():
        yield item_filter.keep(items)
