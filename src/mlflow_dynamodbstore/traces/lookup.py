"""Finding traces of the active workspace, and remembering where they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST

from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.mlflow_compat.validation import parse_experiment_ids
from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.places import TracePlace, trace_place_of
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.traces import items
from mlflow_dynamodbstore.traces.facts import FACTS

T = TypeVar("T")

ITEMS_KEPT = 1000
MOST_ATTRIBUTES_KEPT = 1000
LARGEST_FACTS_KEPT = 8 * 1024


class TraceLookup:
    """From the id of a trace to its own item."""

    def __init__(self, context: Context, experiment_lookup: ExperimentLookup) -> None:
        self.table = context.table
        self.experiment_lookup = experiment_lookup
        self._places: BoundedCache[str, TracePlace] = BoundedCache()
        self._items: BoundedCache[str, Item] = BoundedCache(ITEMS_KEPT, name="traces")

    def get(self, trace_id: str) -> Item:
        """A trace's own item; raises when the active workspace has no such trace."""
        item = self.find(trace_id)
        if item is None:
            raise TraceNotFound(trace_id)
        return item

    def find(self, trace_id: str) -> Item | None:
        """A trace's own item, or None when the active workspace has no such trace."""
        return self.at_place(trace_id, lambda place: self.table.get(place.key))

    def at_place(self, trace_id: str, act: Callable[[TracePlace], T | None]) -> T | None:
        """The result of ``act`` at the place of a trace, or None when there is no such trace.

        ``act`` returns None when the trace is not there. It may have moved: then ``act`` is called
        with its new place.
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
        known = self._places.get(trace_id)
        if known is not None and self.experiment_lookup.is_in_workspace(known.experiment_id):
            return known
        locator = self.find_locator(trace_id)
        if locator is None:
            return None
        place = items.located_place(locator, trace_id)
        self._places.put(trace_id, place)
        return place

    def find_locator(self, trace_id: str) -> Item | None:
        """A trace's locator, or None when the active workspace has no such trace."""
        found = self.table.get(trace_keys.trace_locator_key(trace_id))
        if found is None or not items.is_located(found):
            return None
        is_here = self.experiment_lookup.is_in_workspace(str(found["experiment_id"]))
        return found if is_here else None

    def find_many(self, trace_ids: Iterable[str]) -> dict[str, Item]:
        """The own items of many traces, by id; takes two batches of requests.

        It takes two more for traces that have moved.
        """
        wanted = list(dict.fromkeys(trace_ids))
        known = {k: v for k in wanted if (v := self._places.get(k)) is not None}
        known.update(self.locate(one for one in wanted if one not in known))
        found = self._items_at(known)
        if gone := [one for one in known if one not in found]:
            for one in gone:
                self.forget(one)
            now = self.locate(gone)
            found.update(self._items_at({k: v for k, v in now.items() if v != known[k]}))
        return found

    def find_in_order(
        self, trace_ids: Iterable[str], experiment_ids: list[str] | None
    ) -> list[Item]:
        """The own items of the traces that are found, in the order of their ids."""
        wanted = list(dict.fromkeys(trace_ids))
        found = self.find_many(wanted)
        known = [found[trace_id] for trace_id in wanted if trace_id in found]
        if experiment_ids is None:
            return known
        allowed = {str(number) for number in parse_experiment_ids([*experiment_ids])}
        return [item for item in known if trace_place_of(item).experiment_id in allowed]

    def locate(self, trace_ids: Iterable[str]) -> dict[str, TracePlace]:
        """The places that the locators of traces name, by trace id."""
        locators = {trace_keys.trace_locator_key(trace_id): trace_id for trace_id in trace_ids}
        located = {
            locators[key]: items.located_place(found, locators[key])
            for key, found in self.table.get_many(locators).items()
            if items.is_located(found)
        }
        for trace_id, place in located.items():
            self._places.put(trace_id, place)
        return located

    def _items_at(self, places: Mapping[str, TracePlace]) -> dict[str, Item]:
        """The own items of traces, given the place of each; by trace id."""
        trace_ids = {
            place.key: trace_id
            for trace_id, place in places.items()
            if self.experiment_lookup.is_in_workspace(place.experiment_id)
        }
        return {trace_ids[key]: item for key, item in self.table.get_many(trace_ids).items()}

    def ensure_locator(self, place: TracePlace, ttl: int | None) -> TracePlace:
        """Make sure that a trace has a locator; returns the place that it names."""

        def attempt() -> TracePlace:
            found = self.table.get(trace_keys.trace_locator_key(place.trace_id))
            if found is not None and items.is_located(found):
                return items.located_place(found, place.trace_id)
            locator = items.locator(place, ttl, items.early_links(found))
            unchanged = ABSENT if found is None else items.has_same(found, items.EDITS)
            self.table.put(locator, condition=unchanged)
            return place

        return optimistically(f"Trace with ID '{place.trace_id}'", attempt)

    # --- what is remembered -----------------------------------------------------------------------

    def note(self, item: Item) -> Item:
        """Remember a trace, so that the next call need not read it first; returns it."""
        place = trace_place_of(item)
        self._places.put(place.trace_id, place)
        facts = item.get(FACTS) or b""
        if (
            isinstance(facts, dict)
            or len(facts) > LARGEST_FACTS_KEPT
            or len(item) > MOST_ATTRIBUTES_KEPT
        ):
            self._items.forget(place.trace_id)
        else:
            self._items.put(place.trace_id, item)
        return item

    def forget(self, trace_id: str) -> None:
        """Forget a trace and where it lies."""
        self._places.forget(trace_id)
        self._items.forget(trace_id)

    def forget_item(self, trace_id: str) -> None:
        """Forget a trace's own item, not where it lies."""
        self._items.forget(trace_id)

    def cached(self, trace_id: str) -> Item | None:
        """A trace's own item as it was remembered; good enough to try a change on."""
        item = self._items.get(trace_id)
        if item is None or not self.experiment_lookup.is_in_workspace(
            trace_place_of(item).experiment_id
        ):
            return None
        return item

    def try_cached(
        self, guess: Item | None, act: Callable[[Item], T], otherwise: Callable[[], T]
    ) -> T:
        """The result of ``act`` on a remembered trace, or of ``otherwise`` when that fails.

        It may fail only because another process has deleted, moved or replaced the trace, so no
        error of ``act`` is final.
        """
        if guess is not None:
            try:
                return act(guess)
            except MlflowException:
                self.forget(trace_place_of(guess).trace_id)
        return otherwise()


class TraceNotFound(MlflowException):
    """MLflow's error for a trace that does not exist, or not in this workspace."""

    def __init__(self, trace_id: str) -> None:
        super().__init__(f"Trace with ID '{trace_id}' not found.", RESOURCE_DOES_NOT_EXIST)
