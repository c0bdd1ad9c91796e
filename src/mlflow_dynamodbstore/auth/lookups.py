"""The tracking store as permission checks see it.

To check a call on a run MLflow's app reads the run, for the sake of its experiment, and the
experiment for the sake of its workspace. Neither changes, so both are remembered for the moment
for which permissions are: a check whose answers are remembered reads nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlflow.entities import Experiment, RunInfo
from mlflow.utils.workspace_context import get_request_workspace

from mlflow_dynamodbstore.auth.cache import Recent


@dataclass(frozen=True)
class RunOwner:
    """Of a run only what tells where it belongs."""

    info: RunInfo


class Lookups:
    """A tracking store whose runs and experiments are remembered; all else is the store's own."""

    def __init__(self, store: Any, recent: Recent):
        self._store = store
        self._recent = recent

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get_run(self, run_id: str) -> RunOwner:
        return self._recent.answer(
            ("run", get_request_workspace(), run_id),
            lambda: RunOwner(self._store.get_run(run_id).info),
        )

    def get_experiment(self, experiment_id: str) -> Experiment:
        found: Experiment = self._recent.answer(
            ("experiment", get_request_workspace(), experiment_id),
            lambda: self._store.get_experiment(experiment_id),
        )
        return found


def remembering(get_store: Callable[[], Any], recent: Recent) -> Callable[[], Lookups]:
    """What gives a tracking store, so that it gives one that remembers."""
    return lambda: Lookups(get_store(), recent)
