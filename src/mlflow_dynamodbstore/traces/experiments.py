"""The experiments that traces are written to, and what a new trace takes from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mlflow.entities.lifecycle_stage import LifecycleStage
from mlflow.utils.mlflow_tags import MLFLOW_ARTIFACT_LOCATION
from mlflow.utils.uri import append_to_uri_path

from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.places import ARTIFACTS_FOLDER, TracePlace, experiment_id_of
from mlflow_dynamodbstore.shared.policies import TRACE_RETENTION
from mlflow_dynamodbstore.table.values import Item

T = TypeVar("T")

EXPERIMENT_SECONDS = 5.0
TRACES_FOLDER = "traces"


class TraceExperiments:
    """Experiments, remembered for a few seconds while they are active."""

    def __init__(self, context: Context, experiment_lookup: ExperimentLookup) -> None:
        self.context = context
        self.experiment_lookup = experiment_lookup
        self._active: BoundedCache[str, Item] = BoundedCache(
            seconds=EXPERIMENT_SECONDS, name="experiments of traces"
        )

    def get_active(self, experiment_id: str | int | None) -> Item:
        """An experiment that is active, or was a few seconds ago; raises MLflow's errors."""
        return self._known(experiment_id) or self._read(
            lambda: self.experiment_lookup.get_active(experiment_id)
        )

    def get(self, experiment_id: str | int | None) -> Item:
        """An active or deleted experiment; MLflow accepts spans for both."""
        return self._known(experiment_id) or self._read(
            lambda: self.experiment_lookup.get(experiment_id)
        )

    def _known(self, experiment_id: str | int | None) -> Item | None:
        known = self._active.get(str(experiment_id))
        return known if known and known["workspace"] == self.context.workspace() else None

    def _read(self, read: Callable[[], Item]) -> Item:
        item = self.context.policies.beside(read)  # the expiry comes from them
        if item["lifecycle"] == LifecycleStage.ACTIVE:
            self._active.put(experiment_id_of(item), item)
        return item

    def forget(self, experiment_id: str) -> None:
        """Forget an experiment that is no longer active."""
        self._active.forget(experiment_id)

    def place(self, experiment: Item, trace_id: str, begin: Callable[[TracePlace], T]) -> T:
        """The result of beginning a trace, or of adding to one, where a new one is to lie.

        Callers that begin a trace at once choose the same volume.
        """
        home = experiment_id_of(experiment)
        return self.experiment_lookup.volumes.place(
            home, trace_id, lambda volume: begin(TracePlace(home, trace_id, volume))
        )

    def expiry(self) -> int | None:
        """When a trace that begins now expires."""
        return self.context.policies.expiry(TRACE_RETENTION)


def artifact_tag(experiment: Item, trace_id: str) -> dict[str, str]:
    """The tag that says where the artifacts of a trace go."""
    location = append_to_uri_path(
        experiment["artifact_location"], TRACES_FOLDER, trace_id, ARTIFACTS_FOLDER
    )
    return {MLFLOW_ARTIFACT_LOCATION: location}
