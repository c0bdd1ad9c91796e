"""Finding traces of the active workspace, and remembering where they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_items import OLD_TRACES
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.places import (
    TracePlace,
    trace_place_of,
)
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.traces import items
from mlflow_dynamodbstore.traces.paths import IN_TIME, IN_TIME_ONCE

T = TypeVar("T")

IMAGES_KEPT = 1000
LARGEST_IMAGE = 8 * 1024


class TraceLookup:
    """From the id of a trace to its own item."""

    def __init__(self, context: Context, experiment_lookup: ExperimentLookup) -> None:
        self.table = context.table
        self.experiment_lookup = experiment_lookup
        self._homes: BoundedCache[str, str] = BoundedCache()
        self._images: BoundedCache[str, Item] = BoundedCache(IMAGES_KEPT)
        self._without_old_traces: BoundedCache[str, bool] = BoundedCache()

    def get(self, trace_id: str) -> Item:
        """A trace's own item; raises when the active workspace has no such trace."""
        item = self.find(trace_id)
        if item is None:
            raise TraceNotFound(trace_id)
        return item

    def find(self, trace_id: str) -> Item | None:
        """A trace's own item, or None when the active workspace has no such trace."""
        return self.at(trace_id, lambda place: self.table.get(place.key))

    def at(self, trace_id: str, act: Callable[[TracePlace], T | None]) -> T | None:
        """What there is where a trace lies, or None when the active workspace has no such trace.

        One that is not where it was looked for may have moved, or been written anew.
        """
        tried: TracePlace | None = None
        while (place := self.find_place(trace_id)) not in (None, tried):
            assert place is not None
            found = act(place)
            if found is not None:
                return found
            self.forget(trace_id)
            tried = place
        return None

    def find_place(self, trace_id: str) -> TracePlace | None:
        """Where a trace lies or lay, or None when the active workspace has no such trace."""
        home = self._homes.get(trace_id)
        if home is None or not self.experiment_lookup.is_in_workspace(home):
            found = self.table.get(trace_keys.trace_locator_key(trace_id))
            if found is None:
                return None
            home = str(found["experiment_id"])
            self._homes.put(trace_id, home)
        return TracePlace(home, trace_id) if self.experiment_lookup.is_in_workspace(home) else None

    def find_many(self, trace_ids: Iterable[str]) -> dict[str, Item]:
        """The own items of many traces, by id; in two batches of requests.

        Those that are not where they are remembered to be take two more.
        """
        wanted = list(dict.fromkeys(trace_ids))
        homes = {one: home for one in wanted if (home := self._homes.get(one)) is not None}
        homes.update(self.locate(one for one in wanted if one not in homes))
        found = self._traces_at(homes)
        if gone := [one for one in homes if one not in found]:
            for one in gone:
                self.forget(one)
            now = self.locate(gone)
            found.update(self._traces_at({k: v for k, v in now.items() if v != homes[k]}))
        return found

    def locate(self, trace_ids: Iterable[str]) -> dict[str, str]:
        """The experiments that hold traces, by the ids of these."""
        locators = {trace_keys.trace_locator_key(trace_id): trace_id for trace_id in trace_ids}
        homes = {
            locators[key]: str(found["experiment_id"])
            for key, found in self.table.get_many(locators).items()
        }
        for trace_id, home in homes.items():
            self._homes.put(trace_id, home)
        return homes

    def _traces_at(self, homes: Mapping[str, str]) -> dict[str, Item]:
        places = {
            TracePlace(home, trace_id).key: trace_id
            for trace_id, home in homes.items()
            if self.experiment_lookup.is_in_workspace(home)
        }
        return {places[key]: item for key, item in self.table.get_many(places).items()}

    def ensure_locator(self, place: TracePlace, ttl: int | None) -> str:
        """Make sure that a trace which is there has a locator; gives where that says it is."""
        while (found := self.table.get(trace_keys.trace_locator_key(place.trace_id))) is None:
            with suppress(ConditionFailed):
                self.table.put(items.locator(place, ttl), condition=ABSENT)
                return place.experiment_id
        return str(found["experiment_id"])

    def note(self, item: Item) -> Item:
        """Remember a trace, so that the next call about it need not read it first."""
        place = trace_place_of(item)
        self._homes.put(place.trace_id, place.experiment_id)
        facts = item.get("facts")
        if isinstance(facts, dict) or len(facts or b"") > LARGEST_IMAGE or len(item) > IMAGES_KEPT:
            self._images.forget(place.trace_id)
        else:
            self._images.put(place.trace_id, item)
        return item

    def forget(self, trace_id: str) -> None:
        self._homes.forget(trace_id)
        self._images.forget(trace_id)

    def forget_image(self, trace_id: str) -> None:
        """Forget what a trace looked like, not where it lies."""
        self._images.forget(trace_id)

    def cached(self, trace_id: str) -> Item | None:
        """A trace's own item as it was a moment ago; good enough to try a change on."""
        item = self._images.get(trace_id)
        if item is None or not self.experiment_lookup.is_in_workspace(
            trace_place_of(item).experiment_id
        ):
            return None
        return item

    def try_cached(
        self, guess: Item | None, act: Callable[[Item], T], otherwise: Callable[[], T]
    ) -> T:
        """What comes of acting on a trace as it was a moment ago, or else of looking for it.

        Whatever is refused then may be refused for what has long been deleted, moved or begun
        anew by another process, so that no such refusal is the last word.
        """
        if guess is not None:
            try:
                return act(guess)
            except MlflowException:
                self.forget(trace_place_of(guess).trace_id)
        return otherwise()

    def has_no_old_traces(self, experiment_id: str) -> bool:
        """Whether an experiment is known to hold no traces of before they stood in LSI1."""
        return self._without_old_traces.get(experiment_id) is not None

    def time_indexes(self, experiment_ids: Sequence[str]) -> dict[str, str]:
        """For each experiment the index that lists all its traces by time.

        Experiments that may hold traces from before these stood in LSI1 say so. That one holds
        none is true for ever, and is asked once.
        """
        found = dict.fromkeys(experiment_ids, IN_TIME)
        unknown = {
            experiment_keys.experiment_key(one): one
            for one in found
            if self._without_old_traces.get(one) is None
        }
        for key, meta in self.table.get_many(unknown).items():
            if OLD_TRACES in meta:
                found[unknown[key]] = IN_TIME_ONCE
            else:
                self._without_old_traces.put(unknown[key], True)
        return found


class TraceNotFound(MlflowException):
    """MLflow's error for a trace that does not exist, or not in this workspace."""

    def __init__(self, trace_id: str) -> None:
        super().__init__(f"Trace with ID '{trace_id}' not found.", RESOURCE_DOES_NOT_EXIST)
