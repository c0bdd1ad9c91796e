"""Beginning a trace, which two callers may do at once and in different experiments.

A trace's id does not name its experiment. The *locator* does, a small item in a partition of its
own. It is written first and only once: a second caller's write is refused, and the refusal says
where the trace lies.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import NamedTuple, TypeVar

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST

from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.optimistic import Outdated, optimistically
from mlflow_dynamodbstore.shared.places import TracePlace, trace_place_of
from mlflow_dynamodbstore.table.contract import MAX_TRANSACTION, Check, Delete, Put, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.traces import items, merging
from mlflow_dynamodbstore.traces.items import ttl_of
from mlflow_dynamodbstore.traces.lookup import TraceLookup, TraceNotFound
from mlflow_dynamodbstore.traces.overflow import unused_parts

T = TypeVar("T")

COPIED = "copied"
"""Attribute of the items below a trace: which move brought them here."""

LATE_SECONDS = 5.0
"""Time between a locator and its trace after which links may have come that nobody waits for."""

MakeItem = Callable[[TracePlace], Item]
"""Makes the own item of a new trace at a place."""


class Located(NamedTuple):
    """Where a trace's locator says that it lies, and whether this call has written the locator."""

    place: TracePlace
    is_new: bool
    links: Item
    since: float  # when the locator was written or seen, by this process's clock


class TraceCreation:
    """Beginning traces, and moving them to other experiments."""

    def __init__(
        self, context: Context, experiment_lookup: ExperimentLookup, trace_lookup: TraceLookup
    ) -> None:
        self.table = context.table
        self.experiment_lookup = experiment_lookup
        self.trace_lookup = trace_lookup

    def write_locator(
        self,
        place: TracePlace,
        ttl: int | None,
        with_it: Sequence[Put] = (),
        own: Item | None = None,
    ) -> Located:
        """Write a trace's locator, its own item and some items with it, all or none.

        Links that came before the trace are taken into its own item; see :mod:`.links`.
        """
        early: Item | None = None

        def attempt() -> Located:
            nonlocal early
            since = time.monotonic()
            links = items.early_links(early)
            unchanged = ABSENT if early is None else items.has_same(early, items.EDITS)
            locator = Put(items.locator(place, ttl, links), condition=unchanged)
            owned = [] if own is None else [Put({**own, **links}, condition=ABSENT)]
            try:
                self.table.transact([locator, *owned, *with_it])
            except TransactionCancelled as cancelled:
                if not cancelled.any_refused:
                    raise
                found = cancelled.old(0)
                if found is None:  # the trace is there, without a locator
                    return Located(place, False, {}, since)
                if items.is_located(found):
                    at = items.located_place(found, place.trace_id)
                    return Located(at, False, items.early_links(found), since)
                early = found
                raise Outdated from cancelled
            return Located(place, True, links, since)

        return optimistically(f"Trace with ID '{place.trace_id}'", attempt)

    def begin(self, located: Located, make: MakeItem) -> tuple[Item, bool]:
        """The trace at the place its locator names, and whether this call has begun it."""
        new = {**make(located.place), **located.links}
        try:
            self.table.put(new, condition=ABSENT)
        except ConditionFailed as refused:
            if refused.old is None:
                raise
            self.table.write(unused_parts(new))
            return refused.old, False
        if time.monotonic() - located.since > LATE_SECONDS:
            new = self._take_late_links(new, located)
        return self.trace_lookup.note(new), True

    def _take_late_links(self, new: Item, located: Located) -> Item:
        """A new trace with the links that came between its locator and its own item.

        A caller that links the trace waits for its own item for a while and then relies on this.
        """
        locator = self.table.get(trace_keys.trace_locator_key(located.place.trace_id))
        late = {k: v for k, v in items.early_links(locator).items() if k not in located.links}
        if not late:
            return new
        linked = items.counted_edit(Update(set=late))
        return self.table.update(located.place.key, linked, returns="new") or new

    def find_or_begin(self, located: Located, make: MakeItem) -> tuple[Item, bool]:
        """As :meth:`begin`, for a locator that another call has written."""
        place = located.place
        if not self.experiment_lookup.is_in_workspace(place.experiment_id):
            raise MlflowException(
                f"Trace with ID '{place.trace_id}' no longer exists.", RESOURCE_DOES_NOT_EXIST
            )
        found = self.table.get(place.key)
        if found is not None:
            return found, False
        item, begun = self.begin(located, make)
        # A call that deletes or moves the trace that lay here may change the locator afterwards.
        if self.trace_lookup.ensure_locator(place, ttl_of(item)) != place:
            with suppress(ConditionFailed):
                self.table.delete(place.key, condition=items.is_unchanged(item))
                self.table.write(unused_parts(item))
            self.trace_lookup.forget(place.trace_id)
            raise TraceNotFound(place.trace_id)
        return item, begun

    def move(self, item: Item, new: TracePlace) -> Item:
        """Move a trace with all its items to another experiment; returns its new own item.

        A trace of that experiment stays in the volume in which it lies.
        """
        old = trace_place_of(item)
        if old.experiment_id == new.experiment_id:
            return item
        copied: set[Key] = set()

        def attempt() -> Item:
            nonlocal copied
            current = self.table.get(old.key)  # not from the cache: all of it is copied
            try:
                if current is None:
                    raise TraceNotFound(old.trace_id)
                merging.check_takes_info(current)
            except MlflowException:
                self.table.write([Delete(key) for key in copied])
                raise
            below = self._items_below(old)
            mark = token_hex(6)
            copies = [Put({**child, "PK": new.pk, COPIED: mark}) for child in below]
            kept = {self.table.schema.key_of(copy.item) for copy in copies}
            # The copies come first and the old items go last, so the trace is whole at any time.
            self.table.write([*copies, *(Delete(key) for key in copied - kept)])
            copied = kept
            moved = items.indexed({**current, "PK": new.pk})
            self.table.transact(
                [
                    Delete(old.key, condition=items.is_unchanged(current)),
                    Put(items.locator(new, ttl_of(current)), condition=items.locates(old)),
                    Put(moved),
                ]
            )
            self._remove_below(old, below)
            return self.trace_lookup.note(moved)

        return optimistically(f"Trace with ID '{old.trace_id}'", attempt)

    def _items_below(self, place: TracePlace) -> list[Item]:
        """All items of a trace but its own, and the note that its session is assessed."""
        query = Query(place.pk, where=trace_keys.trace_children(place.trace_id).on())
        note = self.table.get(place.session_note)
        return [*self.table.items(query), *([] if note is None else [note])]

    def _remove_below(self, place: TracePlace, below: Sequence[Item]) -> None:
        """Remove the items of a trace that has moved away, unless another call moves it back."""
        gone = Check(place.key, ABSENT)
        for some in batched(below, MAX_TRANSACTION - 1):
            try:
                self.table.transact([gone, *(self._removal(child) for child in some)])
            except TransactionCancelled as cancelled:
                if not cancelled.any_refused:
                    raise

    def _removal(self, child: Item) -> Delete:
        """Removes an item unless a move has brought it here since it was read."""
        return Delete(self.table.schema.key_of(child), condition=items.has_same(child, COPIED))


def retried_when_moved(trace_id: str, act: Callable[[], T]) -> T:
    """The result of an action on a trace, repeated when another call moves the trace."""

    def attempt() -> T:
        try:
            return act()
        except TraceNotFound as moved:
            raise Outdated from moved

    return optimistically(f"Trace with ID '{trace_id}'", attempt)
