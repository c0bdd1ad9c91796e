"""Estimating what a transfer reads and writes, before it begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mlflow_dynamodbstore.table.schema import Schema
from mlflow_dynamodbstore.table.values import TTL
from mlflow_dynamodbstore.table.wrappers.costs import page_units, write_units
from mlflow_dynamodbstore.transfer.archive.sources import ItemFilter, Source
from mlflow_dynamodbstore.upkeep.table_stats import Amount, stored_sizes

Progress = Callable[[int], None]


@dataclass
class Estimate:
    """What a source holds, and the DynamoDB units that reading and writing it takes."""

    amount: Amount = field(default_factory=Amount)
    expired: int = 0
    read_units: float = 0.0
    write_units: int = 0


def estimate(
    source: Source, schema: Schema, now: float, progress: Progress = lambda _: None
) -> Estimate:
    """Read a whole source, and add up what moving it takes."""
    found, item_filter = Estimate(), ItemFilter(now)
    for items, _ in source.pages():
        found.read_units += page_units(items, consistent=True)
        for item in item_filter.keep(items):
            own, local, global_ = stored_sizes(schema, item)
            found.amount.add(Amount(1, own, local + global_, int(TTL in item)))
            found.write_units += write_units(schema, None, item)
        progress(found.amount.items)
    found.expired = item_filter.expired
    return found
