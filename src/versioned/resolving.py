"""From an alias to a version, the same one for the same key."""

from __future__ import annotations

import hashlib

from mlflow_dynamodbstore.table.values import Item
from versioned.aliases import get_alias
from versioned.home import Home
from versioned.keys import decode_version_sk
from versioned.rows import Alias, Artifact
from versioned.versions import show


def resolve(home: Home, name: str, alias: str, key: str | None) -> Artifact:
    """The version that an alias gives to a key; without a key, one drawn by weight.

    One read; a second for LATEST, which changes.
    """
    row = get_alias(home, name, alias)
    sk = choose(row, home.rng.randrange(100) if key is None else bucket(row, key))
    snapshot = row.targets.get(sk)
    if snapshot is None:
        return show(home, name, sk)
    item: Item = {**snapshot, "pk": home.keys.versions(name), "sk": sk}
    return Artifact.from_item(item)


def choose(row: Alias, percent: int) -> str:
    """The sort key of the version that one hundredth of the keys gets."""
    if row.secondary_version and percent < (row.secondary_version_weight or 0):
        return row.secondary_version
    return row.version


def bucket(row: Alias, key: str) -> int:
    """The hundredth that a key falls into, 0 to 99.

    It depends on the alias and its secondary version, not on the weight: raising the weight takes
    nobody out of a canary, and the next canary does not meet the same keys first.
    """
    secondary = decode_version_sk(row.secondary_version) if row.secondary_version else ""
    text = f"{row.name}\0{row.alias}\0{secondary}\0{key}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % 100
