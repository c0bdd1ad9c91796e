"""Which experiments have lookup entries for all that they hold.

Lookup entries find traces by the client's id of their request, and runs by the datasets that they
used. What an earlier release wrote has none until a backfill writes them, and its experiment says
so.
"""

from __future__ import annotations

from collections.abc import Iterable

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_items import OLD_LOOKUPS


class LookupEntries:
    """The experiments whose lookup entries are complete."""

    def __init__(self, context: Context) -> None:
        self.table = context.table
        self._complete: BoundedCache[str, bool] = BoundedCache()

    def complete(self, experiment_ids: Iterable[str]) -> set[str]:
        """Those of some experiments; an experiment that is complete stays so and is read once."""
        unknown = {}
        found: set[str] = set()
        for one in experiment_ids:
            if self._complete.get(one) is None:
                unknown[experiment_keys.experiment_key(one)] = one
            else:
                found.add(one)
        for key, meta in self.table.get_many(unknown).items():
            if OLD_LOOKUPS not in meta:
                found.add(unknown[key])
                self._complete.put(unknown[key], True)
        return found
