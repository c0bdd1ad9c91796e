"""What a table holds, counted during a scan: items and bytes by kind, and large experiments."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys.item_kinds import UNKNOWN, describe_item
from mlflow_dynamodbstore.keys.metric_log import METRIC_LOG, log_item_of
from mlflow_dynamodbstore.shared.volume_states import Volume
from mlflow_dynamodbstore.table.schema import Schema
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.values import TTL, Item
from mlflow_dynamodbstore.table.versions import Upgraded
from mlflow_dynamodbstore.tracking.log_entries import AT
from mlflow_dynamodbstore.tracking.records import TERMINAL_STATUSES
from mlflow_dynamodbstore.upkeep.prices import PRICE_PER_GB

OVERHEAD = 100
"""Bytes that DynamoDB adds to each item and index entry when it bills storage."""
GB = 1024**3
COLLECTION_LIMIT = 10 * GB
DAY = 24 * 3600
UNENDED_SECONDS = DAY
EXAMPLES = 5


def readable(size: float) -> str:
    """Bytes as people read them."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            break
        size /= 1024
    return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"


@dataclass
class Amount:
    """A number of items, and the bytes they take in the table and in its indexes."""

    items: int = 0
    bytes: int = 0
    index_bytes: int = 0
    expiring: int = 0

    def monthly(self, price_per_gb: float = PRICE_PER_GB) -> float:
        """The price of storing them for a month, in dollars."""
        return (self.bytes + self.index_bytes) / GB * price_per_gb

    def add(self, other: Amount) -> None:
        self.items += other.items
        self.bytes += other.bytes
        self.index_bytes += other.index_bytes
        self.expiring += other.expiring


@dataclass
class TableStats:
    """What a scan has seen so far.

    Of partitions, only experiments are listed: only they can grow without limit.
    """

    schema: Schema
    now: float
    by_kind: dict[str, Amount] = field(default_factory=lambda: defaultdict(Amount))
    by_volume: dict[Volume, int] = field(default_factory=lambda: defaultdict(int))
    by_expiry: dict[int, Amount] = field(default_factory=lambda: defaultdict(Amount))
    """What expires on which day since 1970."""
    names: dict[str, str] = field(default_factory=dict)
    """The names of experiments."""
    outdated: int = 0
    unended: int = 0
    unended_examples: list[str] = field(default_factory=list)
    _last_calls: dict[str, int] = field(default_factory=dict)

    def add(self, items: list[Item]) -> None:
        """Count more items."""
        for item in items:
            self._add(item)

    @property
    def total(self) -> Amount:
        amount = Amount()
        for one in self.by_kind.values():
            amount.add(one)
        return amount

    @property
    def unknown(self) -> int:
        return self.by_kind[UNKNOWN].items if UNKNOWN in self.by_kind else 0

    def largest(self, count: int) -> list[tuple[Volume, int]]:
        """The largest volumes, with the bytes that count towards the 10 GB limit."""
        ranked = sorted(self.by_volume.items(), key=lambda one: -one[1])
        return ranked[:count]

    def by_experiment(self) -> dict[str, list[int]]:
        """The bytes in each volume of each experiment, the largest experiment first."""
        found: dict[str, list[int]] = defaultdict(list)
        for volume, size in sorted(self.by_volume.items()):
            found[volume.experiment_id].append(size)
        return dict(sorted(found.items(), key=lambda one: -sum(one[1])))

    def _add(self, item: Item) -> None:
        kind = describe_item(item).kind
        self.outdated += isinstance(item, Upgraded)
        own, local, global_ = stored_sizes(self.schema, item)
        amount = Amount(1, own, local + global_, int(TTL in item))
        self.by_kind[kind].add(amount)
        if amount.expiring:
            self.by_expiry[int(item[TTL]) // DAY].add(amount)
        if kind == "Experiment":
            self.names[str(experiment_keys.experiment_id_of(str(item["PK"])))] = str(item["name"])
        pk = str(item["PK"])
        if pk.startswith("EXP#"):
            experiment_id = str(experiment_keys.experiment_id_of(pk))
            self.by_volume[Volume(experiment_id, experiment_keys.volume_of(pk))] += own + local
        if kind == METRIC_LOG:  # it comes before its run: a scan brings a partition in order
            run_id = log_item_of(str(item["SK"])).run_id
            self._last_calls[run_id] = max(item[AT], self._last_calls.get(run_id, 0))
        if kind == "Run" and self._is_unended(item):
            self.unended += 1
            if len(self.unended_examples) < EXAMPLES:
                self.unended_examples.append(str(run_keys.run_id_of(str(item["SK"]))))

    def _is_unended(self, run: Item) -> bool:
        return (
            run.get("status") not in TERMINAL_STATUSES
            and run.get("lifecycle") == "active"
            and self.now - max(run.get("opened", 0), self._last_call(run)) > UNENDED_SECONDS
        )

    def _last_call(self, run: Item) -> int:
        return self._last_calls.get(str(run_keys.run_id_of(str(run["SK"]))), 0)


def stored_sizes(schema: Schema, item: Item) -> tuple[int, int, int]:
    """The bytes that an item takes in the table, in its local and in its global indexes."""
    entries = {True: 0, False: 0}
    for index in schema.indexes:
        entry = schema.entry(index, item)
        if entry is not None:
            entries[index.is_local] += item_size(entry) + OVERHEAD
    return item_size(item) + OVERHEAD, entries[True], entries[False]
