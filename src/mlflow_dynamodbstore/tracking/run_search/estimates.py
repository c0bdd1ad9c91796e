"""What reading runs costs, by DynamoDB's rules and the sizes that runs usually have.

A page of an index is charged by the sum of its entries. A local index that carries keys fetches
each run from the table, which is charged as one read each, rounded up on its own; so does a batch
read of the runs that RANK items name. Only LSI1 carries whole runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlflow_dynamodbstore.table.contract import MAX_BATCH_GET, MAX_PAGE_BYTES
from mlflow_dynamodbstore.table.wrappers.costs import READ_STEP

ENTRY = 150
"""Bytes of an entry that carries keys."""
RUN = 1_000
"""Bytes of a sealed run with 20 params, 10 metrics and 10 tags: its summary is compressed."""
BELOW = 12_000
"""Bytes of everything below such a run in the partition, history included."""


@dataclass(frozen=True)
class Estimate:
    """Requests and read units of bringing a number of runs."""

    runs: int
    requests: int
    units: float

    @classmethod
    def of(cls, runs: int, entry: int, *, fetched: bool = False, batches: bool = False) -> Estimate:
        """Runs read by entries of a size, and ``fetched`` by the index or in ``batches``."""
        page = max(1, math.ceil(runs * entry / MAX_PAGE_BYTES))
        units = max(1, math.ceil(runs * entry / READ_STEP))
        if fetched:
            units += runs * math.ceil(RUN / READ_STEP)
            page = max(page, math.ceil(runs * RUN / MAX_PAGE_BYTES))
        asked = math.ceil(runs / MAX_BATCH_GET) if batches else 0
        return cls(runs, page + asked, float(units))

    def plus(self, requests: int, units: float) -> Estimate:
        """The same with more requests and units."""
        return Estimate(self.runs, self.requests + requests, self.units + units)

    def in_volumes(self, volumes: int, ranges: int) -> Estimate:
        """The same where each of several volumes is read, in so many ranges."""
        further = (volumes - 1) * ranges
        return self.plus(further, further)
