"""The costs of gateway calls, summed from their traces.

Before an experiment gets its first trace of a gateway call, a note in its workspace says that it
has such traces. A sum reads only the experiments with a note.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from mlflow.tracing.constant import TraceMetadataKey

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE, Comparison
from mlflow_dynamodbstore.shared.workspaces import all_workspaces
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.traces.filters import TraceFilter
from mlflow_dynamodbstore.traces.paths import TIME
from mlflow_dynamodbstore.traces.records import METADATA
from mlflow_dynamodbstore.traces.search import TraceSearch

TOTAL_COST = "total_cost"


class GatewayCosts:
    """The costs of gateway calls."""

    def __init__(self, context: Context, trace_search: TraceSearch) -> None:
        self.context = context
        self.table = context.table
        self.trace_search = trace_search
        self._noted: BoundedCache[Key, bool] = BoundedCache()

    def sum_gateway_trace_cost(
        self,
        start_time_ms: int,
        end_time_ms: int,
        workspace: str | None = None,
        endpoint_id: str | None = None,
        username: str | None = None,
    ) -> float:
        bounds = [
            Comparison(ATTRIBUTE, TIME, ">=", start_time_ms),
            Comparison(ATTRIBUTE, TIME, "<", end_time_ms),
        ]
        if endpoint_id is not None:
            key = TraceMetadataKey.GATEWAY_ENDPOINT_ID
            bounds.append(Comparison(METADATA, key, "=", endpoint_id))
        if username is not None:
            bounds.append(Comparison(METADATA, TraceMetadataKey.AUTH_USERNAME, "=", username))
        wanted = TraceFilter(comparisons=tuple(bounds))
        workspaces = all_workspaces(self.table) if workspace is None else [workspace]
        experiments = [
            experiment
            for found in self.table.map(self._traced_experiments, workspaces)
            for experiment in found
        ]
        found = self.table.map(lambda one: list(self._costs_in(one, wanted)), experiments)
        return math.fsum(cost for costs in found for cost in costs)

    def _costs_in(self, experiment_id: str, wanted: TraceFilter) -> Iterator[float]:
        for trace in self.trace_search.matching_traces([experiment_id], wanted):
            if trace.values(METADATA, TraceMetadataKey.GATEWAY_ENDPOINT_ID):
                yield trace.usage(TOTAL_COST) or 0.0

    def _traced_experiments(self, workspace: str) -> list[str]:
        """The ids of the experiments of a workspace that have traces of gateway calls."""
        query = Query(
            access_keys.workspace_pk(workspace), where=gateway_keys.TRACED_EXPERIMENTS.on()
        )
        return [str(note["experiment_id"]) for note in self.table.items(query)]

    def note_trace_metadata(self, experiment_id: str, metadata: Mapping[str, str]) -> None:
        """Write the note of an experiment, once, if this is the metadata of a gateway call."""
        if TraceMetadataKey.GATEWAY_ENDPOINT_ID not in metadata:
            return
        key = gateway_keys.traced_experiment_key(experiment_id, self.context.workspace())
        if not self._noted.get(key):
            self.table.put({"PK": key.pk, "SK": key.sk, "experiment_id": experiment_id})
            self._noted.put(key, True)
