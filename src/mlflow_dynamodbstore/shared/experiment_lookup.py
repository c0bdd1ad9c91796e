"""Finding experiments of the active workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from mlflow.entities.lifecycle_stage import LifecycleStage

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.mlflow_compat.validation import parse_experiment_id
from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.shared.refusals import invalid, not_found
from mlflow_dynamodbstore.shared.volumes import Volumes
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import Item

R = TypeVar("R")

DEFAULT_EXPERIMENT_ID = "0"
ANY_STAGE = frozenset({LifecycleStage.ACTIVE, LifecycleStage.DELETED})
WORKSPACE_SECONDS = 5.0


class ExperimentFacts(NamedTuple):
    """What never changes about an experiment until it is removed for good."""

    experiment_id: str
    workspace: str
    artifact_location: str

    @classmethod
    def of(cls, meta: Item) -> ExperimentFacts:
        return cls(experiment_id_of(meta), str(meta["workspace"]), str(meta["artifact_location"]))


class ExperimentLookup:
    """From the id of an experiment to its own item, META."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.table = context.table
        self.volumes = Volumes(context.table)
        self._workspace_of: BoundedCache[str, str] = BoundedCache(
            seconds=WORKSPACE_SECONDS, name="workspaces of experiments"
        )
        self._active: BoundedCache[str, ExperimentFacts] = BoundedCache(name="experiments")

    def get(
        self, experiment_id: str | int | None, stages: frozenset[str] | set[str] = ANY_STAGE
    ) -> Item:
        """META of an experiment of the active workspace in one of these stages."""
        number = parse_experiment_id(experiment_id or DEFAULT_EXPERIMENT_ID)
        item = self.table.get(experiment_keys.experiment_key(str(number)))
        if (
            item is None
            or item["workspace"] != self.context.workspace()
            or item["lifecycle"] not in stages
        ):
            self.forget(str(number))
            raise not_found(f"No Experiment with id={number} exists")
        self.note(item)
        return item

    def get_active(self, experiment_id: str | int | None) -> Item:
        """META of an active experiment; raises MLflow's errors for a deleted one and for none."""
        item = self.get(experiment_id)
        if item["lifecycle"] != LifecycleStage.ACTIVE:
            raise invalid(
                f"The experiment {experiment_id_of(item)} must be in the 'active' state. "
                f"Current state is {item['lifecycle']}."
            )
        return item

    def guess_active(self, experiment_id: str | int | None) -> ExperimentFacts:
        """An experiment that was active when it was last read; the caller confirms it later."""
        number = parse_experiment_id(experiment_id or DEFAULT_EXPERIMENT_ID)
        known = self._active.get(str(number))
        if known is not None and known.workspace == self.context.workspace():
            return known
        return ExperimentFacts.of(self.get_active(experiment_id))

    def note(self, meta: Item) -> None:
        """Remember an experiment, so that a run can begin in it without reading it first."""
        self._note_place(meta)
        facts = ExperimentFacts.of(meta)
        if meta["lifecycle"] == LifecycleStage.ACTIVE:
            self._active.put(facts.experiment_id, facts)
        else:
            self._active.forget(facts.experiment_id)

    def forget(self, experiment_id: str) -> None:
        """Forget an experiment that is no longer active."""
        self._active.forget(experiment_id)
        self.context.events.experiment_not_active(experiment_id)

    def is_in_workspace(self, experiment_id: str) -> bool:
        """Whether an experiment belongs to the active workspace."""
        if not self.context.has_workspaces():
            return True
        workspace = self._workspace_of.get(experiment_id)
        if workspace is None:
            workspace = self._read_workspace(experiment_id)
        return workspace == self.context.workspace()

    def if_in_workspace(self, experiment_id: str, read: Callable[[], R | None]) -> R | None:
        """The result of a read, or None if an experiment belongs to another workspace.

        Where both are read from the table, they are read at the same time.
        """
        if not self.context.has_workspaces():
            return read()
        workspace = self._workspace_of.get(experiment_id)
        if workspace is not None:
            return read() if workspace == self.context.workspace() else None
        workspace, found = self.table.together(lambda: self._read_workspace(experiment_id), read)
        return found if workspace == self.context.workspace() else None

    def _read_workspace(self, experiment_id: str) -> str | None:
        item = self.table.get(experiment_keys.experiment_key(experiment_id))
        if item is None:
            return None
        self._note_place(item)
        return str(item["workspace"])

    def _note_place(self, meta: Item) -> None:
        self.volumes.note(meta)
        self._workspace_of.put(experiment_id_of(meta), str(meta["workspace"]))

    def ids(self) -> list[str]:
        """The ids of all experiments of the active workspace, deleted ones included."""
        pk = access_keys.workspace_pk(self.context.workspace())
        guards = self.table.items(Query(pk, where=access_keys.EXPERIMENT_NAMES.on()))
        return [str(guard["experiment_id"]) for guard in guards]

    def items_in_all(self, lifecycle: Range) -> Iterator[Item]:
        """The items of a range of LSI1, in all experiments of the active workspace."""
        where = lifecycle.on("lsi1sk")
        queries = [
            Query(volume.pk, where=where, index="LSI1") for volume in self.volumes.of(self.ids())
        ]
        for found in self.table.map(lambda query: list(self.table.items(query)), queries):
            yield from found
