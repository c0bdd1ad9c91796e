"""Applying a changed retention policy to existing traces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_items import OLD_TRACES
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.places import TracePlace, trace_place_of
from mlflow_dynamodbstore.shared.policies import DAY, TRACE_RETENTION
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.table.versions import Upgraded, upgrade_of
from mlflow_dynamodbstore.traces import items
from mlflow_dynamodbstore.traces.changes import Change, TraceChanges
from mlflow_dynamodbstore.traces.items import ttl_of
from mlflow_dynamodbstore.traces.lookup import TraceLookup, TraceNotFound
from mlflow_dynamodbstore.traces.paths import ExperimentTraces
from mlflow_dynamodbstore.traces.time_indexes import TimeIndexes

AT_ONCE = 50


@dataclass(frozen=True)
class Renewal:
    """The progress of a renewal."""

    looked_at: int = 0
    prolonged: int = 0


class TraceRetention:
    """The expiry of existing traces."""

    def __init__(
        self,
        context: Context,
        experiment_lookup: ExperimentLookup,
        trace_lookup: TraceLookup,
        trace_changes: TraceChanges,
        trace_time_indexes: TimeIndexes,
    ) -> None:
        self.context = context
        self.table = context.table
        self.experiment_lookup = experiment_lookup
        self.trace_lookup = trace_lookup
        self.trace_changes = trace_changes
        self.trace_time_indexes = trace_time_indexes

    def renew(
        self,
        experiment_ids: Iterable[str] | None = None,
        progress: Callable[[Renewal], None] = lambda _: None,
        days: int | None = None,
    ) -> Renewal:
        """Give traces the expiry they would have under the current policy, if it is later.

        No trace expires earlier than before. Named experiments may be of any workspace. ``days``
        replace those of the policy. It can be interrupted and run again.

        As it reads all traces, it also upgrades those of an older version.
        """
        if days is None:
            days = int(self.context.policies.get(TRACE_RETENTION) or 0)
        if experiment_ids is None:
            experiment_ids = self.experiment_lookup.ids()
        reached = Renewal()
        for experiment_id in experiment_ids:
            for some in batched(self._all_traces(experiment_id), AT_ONCE):
                late = [item for item in some if _new_expiry(item, days) is not None]
                self.table.map(lambda item: self._prolong(item, days), late)
                self.table.map(self._upgrade, [i for i in some if isinstance(i, Upgraded)])
                reached = replace(
                    reached,
                    looked_at=reached.looked_at + len(some),
                    prolonged=reached.prolonged + len(late),
                )
                progress(reached)
            self._note_all_are_upgraded(experiment_id)
        return reached

    def _all_traces(self, experiment_id: str) -> Iterator[Item]:
        index = self.trace_time_indexes.of([experiment_id])[experiment_id]
        for volume in self.experiment_lookup.volumes.of([experiment_id]):
            traces = ExperimentTraces(self.table, volume)
            for page in traces.pages(index_keys.traces_by_time(), index, descending=True):
                yield from page

    def _prolong(self, item: Item, days: int) -> None:
        """Prolong a trace; its other items first, so that none expires before it.

        Starts again when the trace has changed or moved: items added since have the old expiry.
        """
        trace_id = trace_place_of(item).trace_id
        found: Item | None = item

        def attempt() -> None:
            nonlocal found
            if found is None or (ttl := _new_expiry(found, days)) is None:
                return
            place = trace_place_of(found)
            self.table.write(items.expiry_patches(self._keys_beside(place), ttl or None))
            # The next generation: a writer that adds items must give them the new expiry.
            own = replace(items.expiry_update(ttl or None), add={"generation": 1})
            try:
                self.table.update(place.key, own, condition=items.is_unchanged(found))
            except ConditionFailed as refused:
                found = refused.old or self._find_anywhere(trace_id)
                raise

        optimistically(f"Trace with ID '{trace_id}'", attempt)
        self.trace_lookup.forget(trace_id)

    def _keys_beside(self, place: TracePlace) -> list[Key]:
        """The keys of all items that expire with a trace, but its own."""
        below = items.keys_in(self.table, place.pk, trace_keys.trace_children(place.trace_id))
        attached = chain.from_iterable(self.context.events.trace_redating(place))
        keys = [*below, *attached, trace_keys.trace_locator_key(place.trace_id)]
        if self.table.get(place.session_note) is not None:
            keys.append(place.session_note)
        return keys

    def _find_anywhere(self, trace_id: str) -> Item | None:
        """A trace where its locator says, in any workspace."""
        found = self.trace_lookup.locate([trace_id]).get(trace_id)
        return None if found is None else self.table.get(found.key)

    def _upgrade(self, item: Item) -> None:
        """Write a trace that was read in an older version in the newest."""
        try:
            self.trace_changes.change(item, Change)
        except TraceNotFound:
            return  # deleted since it was read

    def _note_all_are_upgraded(self, experiment_id: str) -> None:
        """Note on an experiment, all of whose traces were read, that it holds no old ones."""
        if self.trace_time_indexes.has_no_old_traces(experiment_id):
            return
        key = experiment_keys.experiment_key(experiment_id)
        meta = self.table.get(key)
        if meta is None:
            return  # the experiment was removed
        other = {n: value for n, value in upgrade_of(meta).items() if n != OLD_TRACES}
        try:
            self.table.update(key, Update(set=other, remove=(OLD_TRACES,)), condition=PRESENT)
        except ConditionFailed:
            return  # the experiment was removed


NEVER = 0
"""An expiry that means none."""


def _new_expiry(item: Item, days: int) -> int | None:
    """The new expiry of a trace, or None when it keeps its own."""
    now = ttl_of(item)
    if now is None:
        return None
    if not days:
        return NEVER
    then = int(item["created"]) + days * DAY
    return then if then > now else None
