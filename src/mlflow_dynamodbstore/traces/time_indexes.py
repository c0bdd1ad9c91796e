"""Which index lists the traces of an experiment by time."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_items import OLD_TRACES

TIME_INDEX = "LSI1"
"""The index by time that carries whole traces."""
OLD_TIME_INDEX = "LSI2"
"""The index by time that traces were read from before; it costs a fetch for each."""


class TimeIndexes:
    """The index by time of each experiment."""

    def __init__(self, context: Context) -> None:
        self.table = context.table
        self._without_old_traces: BoundedCache[str, bool] = BoundedCache()

    def of(self, experiment_ids: Sequence[str]) -> dict[str, str]:
        """For each experiment the index that lists all its traces by time.

        Experiments that may hold traces from before these stood in LSI1 say so. That one holds
        none is true for ever, and is asked once.
        """
        found = dict.fromkeys(experiment_ids, TIME_INDEX)
        unknown = {
            experiment_keys.experiment_key(one): one
            for one in found
            if not self.has_no_old_traces(one)
        }
        for key, meta in self.table.get_many(unknown).items():
            if OLD_TRACES in meta:
                found[unknown[key]] = OLD_TIME_INDEX
            else:
                self._without_old_traces.put(unknown[key], True)
        return found

    def has_no_old_traces(self, experiment_id: str) -> bool:
        """Whether an experiment is known to hold no traces of before they stood in LSI1."""
        return self._without_old_traces.get(experiment_id) is not None
