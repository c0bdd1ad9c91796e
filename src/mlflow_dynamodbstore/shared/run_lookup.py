"""Finding runs of the active workspace by their ids."""

from __future__ import annotations

from typing import NamedTuple

from mlflow.entities.lifecycle_stage import LifecycleStage
from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.places import RunPlace, run_place_of
from mlflow_dynamodbstore.shared.refusals import invalid, not_found
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.values import Item

FACTS_SECONDS = 3600.0
PLACE_SECONDS = 60.0


class RunFacts(NamedTuple):
    """What never changes about a run until it is removed for good."""

    place: RunPlace
    start_time: int | None

    @classmethod
    def of(cls, run: Item) -> RunFacts:
        return cls(run_place_of(run), start_time_of(run))


class RunLookup:
    """From the id of a run to its own item."""

    def __init__(self, context: Context, experiment_lookup: ExperimentLookup) -> None:
        self.table = context.table
        self.experiment_lookup = experiment_lookup
        self._facts: BoundedCache[str, RunFacts] = BoundedCache(seconds=FACTS_SECONDS, name="runs")
        self._places: BoundedCache[str, RunPlace] = BoundedCache(seconds=PLACE_SECONDS)

    def get(self, run_id: str) -> Item:
        """A run's own item, whatever its lifecycle stage."""
        item = self.find(run_id)
        if item is None:
            raise run_not_found(run_id)
        return item

    def get_active(self, run_id: str) -> Item:
        """The own item of a run that is not deleted."""
        item = self.get(run_id)
        check_run_is_active(run_id, item)
        return item

    def find(self, run_id: str) -> Item | None:
        """A run's own item, or None when the active workspace has no such run.

        Our own ids name their experiment; those of imported runs are looked up in GSI1.
        """
        facts = self._facts.get(run_id)
        guesses = places_by_id(run_id) if facts is None else [facts.place]
        item = next(filter(None, map(self._find_at, guesses)), None)
        if item is None and (place := self._indexed_place(run_id)) not in (None, *guesses):
            assert place is not None
            item = self._find_at(place)
        if item is not None:
            self.note(item)
        return item

    def _find_at(self, place: RunPlace) -> Item | None:
        return self.experiment_lookup.if_in_workspace(
            place.experiment_id, lambda: self.table.get(place.key)
        )

    def _indexed_place(self, run_id: str) -> RunPlace | None:
        """The place that GSI1 names for a run."""
        page = self.table.query(Query(index_keys.run_locator(run_id), index="GSI1", limit=1))
        return run_place_of(page.items[0]) if page.items else None

    def facts(self, run_id: str) -> RunFacts:
        """What never changes about a run; read at most once an hour.

        Whoever changes the run by it learns then whether it was removed meanwhile.
        """
        facts = self._facts.get(run_id)
        if facts is None or not self.experiment_lookup.is_in_workspace(facts.place.experiment_id):
            facts = RunFacts.of(self.get(run_id))
        return facts

    def find_place(self, run_id: str) -> RunPlace | None:
        """Where a run lies, or None when the active workspace has no such run."""
        if (known := self.known_place(run_id)) is not None:
            return known
        item = self.find(run_id)
        return None if item is None else run_place_of(item)

    def known_place(self, run_id: str) -> RunPlace | None:
        """Where a run of the active workspace lies, if it was read in the last minute."""
        place = self._places.get(run_id)
        if place is None or not self.experiment_lookup.is_in_workspace(place.experiment_id):
            return None
        return place

    def note(self, item: Item) -> None:
        """Remember where a run lies."""
        facts = RunFacts.of(item)
        self._facts.put(facts.place.run_id, facts)
        self._places.put(facts.place.run_id, facts.place)

    def forget(self, run_id: str) -> None:
        """Forget where a run lay."""
        self._facts.forget(run_id)
        self._places.forget(run_id)


def places_by_id(run_id: str) -> list[RunPlace]:
    """Where a run may lie by its id; nothing for an id that does not say."""
    return [RunPlace(home.experiment_id, run_id, home.volume) for home in ids.homes_of(run_id)]


def check_run_is_active(run_id: str, item: Item) -> None:
    """Refuse a deleted run, in MLflow's words."""
    if item["lifecycle"] != LifecycleStage.ACTIVE:
        raise invalid(
            f"The run {run_id} must be in the 'active' state. Current state is {item['lifecycle']}."
        )


def start_time_of(run: Item) -> int | None:
    """When a run began."""
    start: int | None = run["start_time"]
    return start


def run_not_found(run_id: str) -> MlflowException:
    """MLflow's error for a run that does not exist, or not in this workspace."""
    return not_found(f"Run with id={run_id} not found")
