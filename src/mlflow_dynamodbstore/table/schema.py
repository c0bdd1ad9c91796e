"""The one description of a table: its key, its indexes and what each index carries.

The DynamoDB engine, the CloudFormation template and the embedded engine create tables and indexes
from it, and metering computes write units from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.table.versions import Versions


@dataclass(frozen=True)
class Index:
    """A secondary index. A local one shares the table's partition key."""

    name: str
    sk: str
    pk: str | None = None  # None: local
    projection: Literal["ALL", "KEYS_ONLY"] = "KEYS_ONLY"

    @property
    def is_local(self) -> bool:
        return self.pk is None


@dataclass(frozen=True)
class Schema:
    """Key attribute names, indexes, versions of items, and the name stamped on an embedded file."""

    kind: str
    pk: str = "PK"
    sk: str = "SK"
    indexes: tuple[Index, ...] = ()
    versions: Versions = field(default_factory=Versions, compare=False)

    @cached_property
    def by_name(self) -> Mapping[str, Index]:
        return {index.name: index for index in self.indexes}

    @cached_property
    def key_attributes(self) -> tuple[str, ...]:
        """Every attribute that is part of some key, the table's own first."""
        names = [self.pk, self.sk]
        for index in self.indexes:
            names += [n for n in (index.pk, index.sk) if n is not None and n not in names]
        return tuple(names)

    def key_of(self, item: Item) -> Key:
        """The primary key of an item."""
        return Key(item[self.pk], item[self.sk])

    def carries(self, index: Index, name: str) -> bool:
        """Whether the entries of an index hold an attribute."""
        return index.projection == "ALL" or name in (self.pk, self.sk, index.pk, index.sk)

    def index_key(self, index: Index, item: Item) -> tuple[str, str] | None:
        """The key of an item in an index, or None when it is not in it."""
        pk, sk = item.get(index.pk or self.pk), item.get(index.sk)
        return (pk, sk) if isinstance(pk, str) and isinstance(sk, str) else None

    def entry(self, index: Index, item: Item | None) -> Item | None:
        """The entry that an item has in an index, or None when it has none."""
        if item is None or self.index_key(index, item) is None:
            return None
        if index.projection == "ALL":
            return item
        names = (self.pk, self.sk, index.pk or self.pk, index.sk)
        return {name: item[name] for name in dict.fromkeys(names)}

    @cached_property
    def local_indexes(self) -> tuple[Index, ...]:
        return tuple(index for index in self.indexes if index.is_local)


MLFLOW_TABLE = Schema(
    kind="mlflow",
    indexes=(
        *(Index(f"GSI{n}", pk=f"gsi{n}pk", sk=f"gsi{n}sk") for n in range(1, 6)),
        # Every page of the UI lists runs by lifecycle and time, so this index carries whole items
        # (ADR 0004). The others carry keys.
        Index("LSI1", sk="lsi1sk", projection="ALL"),
        *(Index(f"LSI{n}", sk=f"lsi{n}sk") for n in range(2, 6)),
    ),
    # Version 2: traces are in LSI1, and an experiment knows whether it has older ones (ADR 0043).
    # Version 3 of experiments: what they hold has lookup entries, or they say otherwise (ADR 0110).
    versions=Versions({"EXP/E": 3, "EXP/T": 2}),
)
