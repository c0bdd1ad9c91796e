"""What every part of the tracking store shares: the table, the workspace, finding a run."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from mlflow.entities.lifecycle_stage import LifecycleStage
from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE, RESOURCE_DOES_NOT_EXIST
from mlflow.store.workspace_aware_mixin import WorkspaceAwareMixin
from mlflow.utils.validation import _parse_experiment_id

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.policies import Policies
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.tracking.items import RunPlace, experiment_id_of, place_of

K = TypeVar("K")
V = TypeVar("V")

WORKSPACE_CACHE_SECONDS = 5.0
ADMISSION_SECONDS = 10.0
FACTS_SECONDS = 60.0
PLACES_KEPT = 10_000


class Recent(Generic[K, V]):
    """A small memory of what was true a moment ago: bounded in size and in age."""

    def __init__(self, size: int, seconds: float):
        self._size = size
        self._seconds = seconds
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None or time.monotonic() - entry[0] > self._seconds:
            return None
        return entry[1]

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._entries[key] = (time.monotonic(), value)
            self._entries.move_to_end(key)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)

    def forget(self, key: K) -> None:
        with self._lock:
            self._entries.pop(key, None)


class RunFacts(NamedTuple):
    """What never changes about a run, unless it is removed for good and imported elsewhere."""

    place: RunPlace
    start_time: int | None

    @classmethod
    def of(cls, run: Item) -> RunFacts:
        return cls(place_of(run), start_time_of(run))


class ExperimentFacts(NamedTuple):
    """What never changes about an experiment, unless it is removed for good and made anew."""

    experiment_id: str
    workspace: str
    artifact_location: str

    @classmethod
    def of(cls, meta: Item) -> ExperimentFacts:
        return cls(experiment_id_of(meta), str(meta["workspace"]), str(meta["artifact_location"]))


class TrackingBase(WorkspaceAwareMixin):
    """The ground the entity modules stand on."""

    DEFAULT_EXPERIMENT_ID = "0"
    ARTIFACTS_FOLDER_NAME = "artifacts"
    MODELS_FOLDER_NAME = "models"

    table: Table
    policies: Policies
    artifact_root_uri: str

    def _open(self, table: Table, artifact_root_uri: str) -> None:
        self.table = table
        self.policies = Policies(table)
        self.artifact_root_uri = artifact_root_uri
        self._workspace_of: Recent[str, str] = Recent(PLACES_KEPT, WORKSPACE_CACHE_SECONDS)
        self._known_facts: Recent[str, RunFacts] = Recent(PLACES_KEPT, FACTS_SECONDS)
        self._known_experiments: Recent[str, ExperimentFacts] = Recent(PLACES_KEPT, float("inf"))
        self._admitted: Recent[str, RunPlace] = Recent(PLACES_KEPT, ADMISSION_SECONDS)

    def _now_ms(self) -> int:
        return int(self.table.clock() * 1000)

    # --- experiments ----------------------------------------------------------------------------

    def _experiment_item(self, experiment_id: str | int | None, stages: set[str]) -> Item:
        """The META item of an experiment of the active workspace in one of these stages."""
        number = _parse_experiment_id(experiment_id or self.DEFAULT_EXPERIMENT_ID)
        item = self.table.get(experiment_keys.experiment_key(str(number)))
        if (
            item is None
            or item["workspace"] != self._get_active_workspace()
            or item["lifecycle"] not in stages
        ):
            self._forget_experiment(str(number))
            raise MlflowException(f"No Experiment with id={number} exists", RESOURCE_DOES_NOT_EXIST)
        self._note_experiment(item)
        return item

    def _note_experiment(self, meta: Item) -> None:
        """Remember an experiment, so that a run can be begun in it without reading it first."""
        facts = ExperimentFacts.of(meta)
        if meta["lifecycle"] == LifecycleStage.ACTIVE:
            self._known_experiments.put(facts.experiment_id, facts)
        else:
            self._known_experiments.forget(facts.experiment_id)

    def _experiment_guessed(self, experiment_id: str | int | None) -> ExperimentFacts:
        """An experiment that is active, or was when it was last seen; to be confirmed later."""
        number = _parse_experiment_id(experiment_id or self.DEFAULT_EXPERIMENT_ID)
        known = self._known_experiments.get(str(number))
        if known is not None and known.workspace == self._get_active_workspace():
            return known
        return ExperimentFacts.of(self._active_experiment(experiment_id))

    def _active_experiment(self, experiment_id: str | int | None) -> Item:
        item = self._experiment_item(experiment_id, {LifecycleStage.ACTIVE, LifecycleStage.DELETED})
        if item["lifecycle"] != LifecycleStage.ACTIVE:
            raise MlflowException(
                f"The experiment {experiment_id_of(item)} must be in the 'active' state. "
                f"Current state is {item['lifecycle']}.",
                INVALID_PARAMETER_VALUE,
            )
        return item

    if TYPE_CHECKING:

        def _experiment_ids(self) -> list[str]:
            """All experiments of the active workspace: in ``experiment_search.py``."""

    def _is_in_workspace(self, experiment_id: str) -> bool:
        """Whether an experiment belongs to the active workspace."""
        if not MLFLOW_ENABLE_WORKSPACES.get():
            return True
        workspace = self._workspace_of.get(experiment_id)
        if workspace is None:
            item = self.table.get(experiment_keys.experiment_key(experiment_id))
            if item is None:
                return False
            workspace = str(item["workspace"])
            self._workspace_of.put(experiment_id, workspace)
        return workspace == self._get_active_workspace()

    def _in_all_experiments(self, lifecycle: Range) -> Iterator[Item]:
        """What LSI1 holds of a lifecycle stage in each experiment of the active workspace."""
        where = lifecycle.on("lsi1sk")
        queries = [
            Query(experiment_keys.experiment_pk(experiment_id), where=where, index="LSI1")
            for experiment_id in self._experiment_ids()
        ]
        for found in self.table.map(lambda query: list(self.table.items(query)), queries):
            yield from found

    # --- what other parts of the store do when something is deleted ------------------------------

    def _delete_assessments_of_run(self, run_id: str) -> None:
        """Remove the assessments that a deleted run made; traces fill this in."""

    def _let_go_of_run(self, run_id: str) -> None:
        """Take back references to a run that is removed for good; issues fill this in."""

    def _forget_experiment(self, experiment_id: str) -> None:
        """Drop what is remembered of a deleted experiment; traces have more."""
        self._known_experiments.forget(experiment_id)

    # --- what other parts of the store do when something is written ------------------------------

    def _note_trace_metadata(self, experiment_id: str, metadata: Mapping[str, str]) -> None:
        """Notice what a trace says of itself before it is written; the gateway fills this in."""

    # --- runs -----------------------------------------------------------------------------------

    def _run_item(self, run_id: str) -> Item:
        """A run's own item, whatever its lifecycle stage."""
        item = self._find_run(run_id)
        if item is None:
            raise run_not_found(run_id)
        return item

    def _find_run(self, run_id: str) -> Item | None:
        """A run's own item, or None when the active workspace has no such run.

        Our own ids name their experiment; those of imported runs are looked up in GSI1.
        """
        facts = self._known_facts.get(run_id)
        guess = facts.place.experiment_id if facts else ids.experiment_of(run_id)
        item = None if guess is None else self._run_in(guess, run_id)
        if item is None and (place := self._look_up(run_id)) not in (None, guess):
            item = self._run_in(str(place), run_id)
        if item is not None:
            self._note(item)
        return item

    def _run_in(self, experiment_id: str, run_id: str) -> Item | None:
        if not self._is_in_workspace(experiment_id):
            return None
        return self.table.get(run_keys.run_key(experiment_id, run_id))

    def _look_up(self, run_id: str) -> str | None:
        page = self.table.query(Query(index_keys.run_locator(run_id), index="GSI1", limit=1))
        return experiment_id_of(page.items[0]) if page.items else None

    def _facts(self, run_id: str) -> RunFacts:
        """What never changes about a run; read once a minute."""
        facts = self._known_facts.get(run_id)
        if facts is None or not self._is_in_workspace(facts.place.experiment_id):
            facts = RunFacts.of(self._run_item(run_id))
        return facts

    def _find_place(self, run_id: str) -> RunPlace | None:
        """Where a run lies, or None when the active workspace has no such run."""
        facts = self._known_facts.get(run_id)
        if facts is not None and self._is_in_workspace(facts.place.experiment_id):
            return facts.place
        item = self._find_run(run_id)
        return None if item is None else place_of(item)

    def _note(self, item: Item) -> None:
        facts = RunFacts.of(item)
        self._known_facts.put(facts.place.run_id, facts)

    def _active_run_item(self, run_id: str) -> Item:
        item = self._run_item(run_id)
        check_run_is_active(run_id, item)
        return item


def batched(values: Iterable[V], size: int) -> Iterator[list[V]]:
    """Values in lists of up to ``size``."""
    iterator = iter(values)
    while chunk := list(islice(iterator, size)):
        yield chunk


def check_run_is_active(run_id: str, item: Item) -> None:
    """Refuse a deleted run, in MLflow's words."""
    if item["lifecycle"] != LifecycleStage.ACTIVE:
        raise MlflowException(
            f"The run {run_id} must be in the 'active' state. "
            f"Current state is {item['lifecycle']}.",
            INVALID_PARAMETER_VALUE,
        )


def start_time_of(run: Item) -> int | None:
    """When a run began."""
    start: int | None = run["start_time"]
    return start


def run_not_found(run_id: str) -> MlflowException:
    """MLflow's error for a run that does not exist, or not in this workspace."""
    return MlflowException(f"Run with id={run_id} not found", RESOURCE_DOES_NOT_EXIST)
