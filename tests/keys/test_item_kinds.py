"""Upkeep knows every form of a key that the schema names."""

from __future__ import annotations

import pytest

from mlflow_dynamodbstore.keys.item_kinds import UNKNOWN, describe_item
from tests.keys.patterns import PATTERNS

SORT_KEYS = [pattern for pattern in PATTERNS if pattern.attribute == "SK"]
PARTITIONS = [pattern for pattern in PATTERNS if pattern.attribute == "PK"]
# What an item may say beside its key, for kinds whose owner is named by the item.
SAID = {"experiment_id": "7", "name": "iris", "workspace": "default", "run_id": "0197c9b4"}


def kinds(partition: str, sort_key: str) -> set[str]:
    """What an item with these keys is; nothing where they do not belong together."""
    try:
        return {describe_item({**SAID, "PK": partition, "SK": sort_key}).kind} - {UNKNOWN}
    except (ValueError, LookupError):
        return set()


@pytest.mark.parametrize("pattern", SORT_KEYS, ids=lambda pattern: pattern.text)
def test_every_sort_key_is_known_in_some_partition(pattern):
    """So that cleanup finds its orphans, and statistics name it."""
    assert set().union(*(kinds(partition.example, pattern.example) for partition in PARTITIONS))


@pytest.mark.parametrize("partition", PARTITIONS, ids=lambda pattern: pattern.text)
def test_every_partition_holds_something_known(partition):
    assert set().union(*(kinds(partition.example, pattern.example) for pattern in SORT_KEYS))


def test_what_nobody_writes_is_unknown():
    """And has no owners, so that upkeep leaves it alone."""
    for pk, sk in (("EXP#7", "X#1"), ("ELSE#7", "R#1"), ("EXP#7", "T#1#ELSE#2")):
        found = describe_item({"PK": pk, "SK": sk})
        assert (found.kind, found.owners) == (UNKNOWN, ())
