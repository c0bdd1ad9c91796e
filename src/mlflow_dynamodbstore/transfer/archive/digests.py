"""Sums of digests, which tell whether two sources hold the same items in any order.

The digest of an item is the SHA-256 of its line as a number, and sums are modulo 2**256. Keys are
divided into many groups with a sum each, so that only a few groups need to be searched for the keys
that differ.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from hashlib import sha256
from zlib import crc32

from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.table.versions import family_of
from mlflow_dynamodbstore.transfer.archive.lines import item_line

GROUPS = 1 << 14
_ALL_BITS = (1 << 256) - 1


def digest_of(line: bytes) -> int:
    """The digest of an item, by its line."""
    return int.from_bytes(sha256(line).digest(), "big")


def group_of(key: Key) -> int:
    """The group that a key is in."""
    return crc32(f"{key.pk}\n{key.sk}".encode()) % GROUPS


class DigestSums:
    """The number of items by family, and the sums of their digests by family and by group."""

    def __init__(self) -> None:
        self.items: Counter[str] = Counter()
        self._families: defaultdict[str, int] = defaultdict(int)
        self._groups = [0] * GROUPS

    def add(self, item: Item) -> bytes:
        """Add an item, and return its line."""
        key, line = Key(item["PK"], item["SK"]), item_line(item)
        family, group, digest = family_of(*key), group_of(key), digest_of(line)
        self.items[family] += 1
        self._families[family] = (self._families[family] + digest) & _ALL_BITS
        self._groups[group] = (self._groups[group] + digest) & _ALL_BITS
        return line

    @property
    def total(self) -> int:
        """How many items there are."""
        return self.items.total()

    @property
    def digest(self) -> str:
        """The sum over all items, as 64 hex digits."""
        return f"{sum(self._families.values()) & _ALL_BITS:064x}"

    def families(self, other: DigestSums) -> list[tuple[str, int, int, bool]]:
        """Each family, how many items of it both have, and whether they are the same."""
        return [
            (name, self.items[name], other.items[name], self._agree(other, name))
            for name in sorted({*self.items, *other.items})
        ]

    def differing_groups(self, other: DigestSums) -> list[int]:
        """The groups whose sums differ."""
        return [n for n in range(GROUPS) if self._groups[n] != other._groups[n]]

    def _agree(self, other: DigestSums, family: str) -> bool:
        same_sum = self._families.get(family, 0) == other._families.get(family, 0)
        return same_sum and self.items[family] == other.items[family]
