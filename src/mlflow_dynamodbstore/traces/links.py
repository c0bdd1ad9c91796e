"""Links from traces to runs and to prompts."""

from __future__ import annotations

from mlflow.entities.model_registry import PromptVersion
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from mlflow.store.tracking import MAX_TRACE_LINKS_PER_REQUEST

from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.places import TracePlace, trace_place_of
from mlflow_dynamodbstore.shared.run_lookup import RunLookup
from mlflow_dynamodbstore.table.contract import Patch
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.traces import items
from mlflow_dynamodbstore.traces.changes import TraceChanges
from mlflow_dynamodbstore.traces.items import PROMPT_LINK, RUN_LINK
from mlflow_dynamodbstore.traces.lookup import TraceLookup


class TraceLinks:
    """Linking traces; linking twice is the same as linking once."""

    def __init__(
        self,
        context: Context,
        run_lookup: RunLookup,
        trace_lookup: TraceLookup,
        trace_changes: TraceChanges,
    ) -> None:
        self.context = context
        self.table = context.table
        self.run_lookup = run_lookup
        self.trace_lookup = trace_lookup
        self.trace_changes = trace_changes

    def link_traces_to_run(self, trace_ids: list[str], run_id: str) -> None:
        if not trace_ids:
            return
        if len(trace_ids) > MAX_TRACE_LINKS_PER_REQUEST:
            raise MlflowException(
                f"Cannot link more than {MAX_TRACE_LINKS_PER_REQUEST} traces to a run in "
                f"a single request. Provided {len(trace_ids)} traces.",
                error_code=INVALID_PARAMETER_VALUE,
            )
        if self.context.has_workspaces():
            self.run_lookup.get(run_id)  # refuses runs of other workspaces
        update = Update(set={RUN_LINK + run_id: True})
        self._update_all(self._find_places(trace_ids), update)

    def unlink_traces_from_run(self, trace_ids: list[str], run_id: str) -> None:
        self._update_all(self._find_places(trace_ids), Update(remove=(RUN_LINK + run_id,)))

    def link_prompts_to_trace(self, trace_id: str, prompt_versions: list[PromptVersion]) -> None:
        if not prompt_versions:
            return
        named = {f"{PROMPT_LINK}{prompt.name}/{prompt.version}": True for prompt in prompt_versions}
        self.trace_changes.update(trace_id, Update(set=named))

    def _find_places(self, trace_ids: list[str]) -> list[TracePlace]:
        """The places of those traces that the active workspace has; MLflow ignores the others."""
        return [trace_place_of(item) for item in self.trace_lookup.find_many(trace_ids).values()]

    def _update_all(self, places: list[TracePlace], update: Update) -> None:
        linked = items.counted_edit(update)
        while places:
            outcomes = self.table.write([Patch(p.key, linked, condition=PRESENT) for p in places])
            gone = [p for p, done in zip(places, outcomes, strict=True) if done.status != "applied"]
            for place in places:
                self.trace_lookup.forget_item(place.trace_id)
            # A refused trace has moved, or was deleted and needs no link.
            for place in gone:
                self.trace_lookup.forget(place.trace_id)
            found = self._find_places([place.trace_id for place in gone])
            places = [place for place in found if place not in gone]
