"""How full partitions are, as DynamoDB reports it with writes.

With local indexes a partition holds at most 10 GB, index entries included. On request a write
returns an estimate of what it holds, free of charge.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from threading import Lock

from mlflow_dynamodbstore.table.dynamodb.transport import Body
from mlflow_dynamodbstore.table.schema import Schema

LIMIT_GB = 10.0
PARTITIONS = 10_000
_SIZE = "ItemCollectionMetrics"


class CollectionSizes:
    """The last estimates, by partition."""

    def __init__(self, schema: Schema) -> None:
        self._pk = schema.pk
        self._is_limited = any(index.is_local for index in schema.indexes)
        self._shares: dict[str, float] = {}
        self._lock = Lock()

    def ask(self, request: Body) -> None:
        """Let a write return the estimates of the partitions that it changes."""
        if self._is_limited:
            request["ReturnItemCollectionMetrics"] = "SIZE"

    def note(self, answer: Body) -> None:
        """Keep the estimates in the answer to a write."""
        if not (metrics := answer.get(_SIZE)):
            return
        with self._lock:
            for partition, gigabytes in _estimates(metrics, self._pk):
                if len(self._shares) >= PARTITIONS and partition not in self._shares:
                    self._shares.clear()
                self._shares[partition] = gigabytes / LIMIT_GB

    def share(self, partition: str) -> float | None:
        """How full a partition was by the last write to it, from 0 to 1; None if unknown."""
        return self._shares.get(partition)


def _estimates(metrics: Body, pk: str) -> Iterator[tuple[str, float]]:
    """Partitions, each with the upper end of its estimate in gigabytes.

    A single write returns one, a batch or a transaction a list for each table.
    """
    single = "ItemCollectionKey" in metrics
    for one in [metrics] if single else chain.from_iterable(metrics.values()):
        bounds = one.get("SizeEstimateRangeGB")
        if bounds:
            yield one["ItemCollectionKey"][pk]["S"], float(bounds[-1])
