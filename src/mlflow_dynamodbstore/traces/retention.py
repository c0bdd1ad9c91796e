"""Letting traces that are there live as long as the policy in force would let them."""

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
from mlflow_dynamodbstore.shared.experiment_items import FAMILY, OLD_TRACES
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.places import TracePlace, trace_place_of
from mlflow_dynamodbstore.shared.policies import DAY, TRACE_RETENTION
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.table.versions import VERSION, Upgraded
from mlflow_dynamodbstore.traces import items
from mlflow_dynamodbstore.traces.changes import Change, TraceChanges
from mlflow_dynamodbstore.traces.items import ttl_of
from mlflow_dynamodbstore.traces.lookup import TraceLookup, TraceNotFound
from mlflow_dynamodbstore.traces.paths import ExperimentTraces
from mlflow_dynamodbstore.traces.time_indexes import TimeIndexes

AT_ONCE = 50


@dataclass(frozen=True)
class Renewal:
    """How far a renewal has come."""

    looked_at: int = 0
    prolonged: int = 0


class TraceRetention:
    """When traces expire."""

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
        """Let traces live as long as if they had been written under the policy of now.

        A later expiry replaces an earlier one, and none at all any; no trace expires earlier than
        it would have. Experiments that are named may be of any workspace. ``days`` are those of
        the policy unless given. It can be interrupted and run again.

        All traces pass by here, so those of an older form are brought to the newest.
        """
        if days is None:
            days = int(self.context.policies.get(TRACE_RETENTION) or 0)
        if experiment_ids is None:
            experiment_ids = self.experiment_lookup.ids()
        reached = Renewal()
        for experiment_id in experiment_ids:
            for some in batched(self._all_traces(experiment_id), AT_ONCE):
                late = [item for item in some if _renewed(item, days) is not None]
                self.table.map(lambda item: self._redate(item, days), late)
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
        traces = ExperimentTraces(self.table, experiment_id)
        for page in traces.pages(index_keys.traces_by_time(), index, descending=True):
            yield from page

    def _redate(self, item: Item, days: int) -> None:
        """Prolong a trace; what belongs to it first, so that it never goes before.

        Done again when it was changed or moved meanwhile: what was added has the old expiry.
        """
        trace_id = trace_place_of(item).trace_id
        found: Item | None = item

        def attempt() -> None:
            nonlocal found
            if found is None or (ttl := _renewed(found, days)) is None:
                return
            place = trace_place_of(found)
            self.table.write(items.expiry_patches(self._belongings(place), ttl or None))
            # Whoever is about to add to it must notice that what is added lives longer.
            own = replace(items.expiry_update(ttl or None), add={"generation": 1})
            try:
                self.table.update(place.key, own, condition=items.is_unchanged(found))
            except ConditionFailed as refused:
                found = refused.old or self._trace_anywhere(trace_id)
                raise

        optimistically(f"Trace with ID '{trace_id}'", attempt)
        self.trace_lookup.forget(trace_id)

    def _belongings(self, place: TracePlace) -> list[Key]:
        """What expires with a trace."""
        below = items.keys_in(self.table, place.pk, trace_keys.trace_children(place.trace_id))
        attached = chain.from_iterable(self.context.events.trace_redating(place))
        belongings = [*below, *attached, trace_keys.trace_locator_key(place.trace_id)]
        if self.table.get(place.session_note) is not None:
            belongings.append(place.session_note)
        return belongings

    def _trace_anywhere(self, trace_id: str) -> Item | None:
        """A trace where its locator says it is, in whatever workspace."""
        found = self.trace_lookup.locate([trace_id]).get(trace_id)
        return None if found is None else self.table.get(trace_keys.trace_key(found, trace_id))

    def _upgrade(self, item: Item) -> None:
        """Write a trace that was read in an older form in the newest."""
        try:
            self.trace_changes.change(item, Change)
        except TraceNotFound:
            return  # deleted meanwhile

    def _note_all_are_upgraded(self, experiment_id: str) -> None:
        """Let an experiment say that it holds no older traces, once all were looked at."""
        if self.trace_time_indexes.has_no_old_traces(experiment_id):
            return
        newest = MLFLOW_TABLE.versions.current(FAMILY)
        upgraded = Update(set={VERSION: newest}, remove=(OLD_TRACES,))
        try:
            key = experiment_keys.experiment_key(experiment_id)
            self.table.update(key, upgraded, condition=PRESENT)
        except ConditionFailed:
            return  # removed meanwhile


NEVER = 0
"""In place of a second: that something does not expire."""


def _renewed(item: Item, days: int) -> int | None:
    """The expiry that a trace is to get, or None when it keeps what it has."""
    now = ttl_of(item)
    if now is None:
        return None
    if not days:
        return NEVER
    then = int(item["created"]) + days * DAY
    return then if then > now else None
