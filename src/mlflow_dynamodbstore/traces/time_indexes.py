"""The index that lists the traces of an experiment by time."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_items import OLD_TRACES

TIME_INDEX = "LSI1"
"""The index by time that carries whole traces."""
OLD_TIME_INDEX = "LSI2"
"""The index by time that also lists old traces; each costs a fetch."""


class TimeIndexes:
    """Which index by time lists all traces of an experiment."""

    def __init__(self, context: Context) -> None:
        self.table = context.table
        self._without_old_traces: BoundedCache[str, bool] = BoundedCache()

    def of(self, experiment_ids: Sequence[str]) -> dict[str, str]:
        """For each experiment, the index that lists all its traces.

        Experiments that may hold traces from before LSI1 listed them say so. Once an experiment
        holds none, it never will again, so that is read once.
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
        """Whether an experiment is known to hold no traces from before LSI1 listed them."""
        return self._without_old_traces.get(experiment_id) is not None
