"""Changing a trace while others may change it too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.optimistic import Outdated, optimistically
from mlflow_dynamodbstore.shared.places import TracePlace, trace_place_of
from mlflow_dynamodbstore.shared.volume_states import Volume
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, is_too_large
from mlflow_dynamodbstore.table.errors import ConditionFailed, ItemTooLarge, TransactionCancelled
from mlflow_dynamodbstore.table.request_checks import refuse_oversized
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.traces import items
from mlflow_dynamodbstore.traces.lookup import TraceLookup, TraceNotFound
from mlflow_dynamodbstore.traces.overflow import OWN_ITEM_ROOM, WholeTrace, own_item, read_whole


@dataclass(frozen=True)
class Change:
    """A trace's own item after a change, and what is written before it and removed after it.

    Items that others may write too, such as a long assessment, are written or removed ``together``
    with the trace, in one transaction.
    """

    after: Item
    before: Sequence[Put] = ()
    parts: Sequence[Put] = ()  # also written before, and removed when the change is refused
    together: Sequence[Put | Delete] = ()
    obsolete: Sequence[Delete] = ()

    def stored(self, item: Item, whole: WholeTrace) -> tuple[Change, bool]:
        """The change of the own item of a whole trace, and whether it replaces the overflow."""
        own = own_item(self.after, item, whole.overflow)
        if not own.replaces_overflow:
            return replace(self, after=own.item), False
        parts, obsolete = [*self.parts, *own.parts], [*self.obsolete, *own.obsolete]
        return replace(self, after=own.item, parts=parts, obsolete=obsolete), True


MOST_PATCHED = 100
"""Attributes that one update changes; DynamoDB bounds the length of its expression."""


class TraceChanges:
    """Changes of a trace's own item and of the items beside it."""

    def __init__(self, context: Context, trace_lookup: TraceLookup) -> None:
        self.table = context.table
        self.trace_lookup = trace_lookup

    def update(self, trace_id: str, update: Update) -> None:
        """Change a trace unconditionally; raises when the active workspace has no such trace."""

        def updated(place: TracePlace) -> bool | None:
            try:
                self.table.update(place.key, items.counted_edit(update), condition=PRESENT)
            except ConditionFailed:
                return None
            return True

        def updated_with_room(place: TracePlace) -> bool | None:
            try:
                return updated(place)
            except ItemTooLarge:
                if not self.make_room(place):
                    raise
                return updated(place)

        done = self.trace_lookup.at_place(trace_id, updated_with_room)
        self.trace_lookup.forget_item(trace_id)
        if not done:
            raise TraceNotFound(trace_id)

    def make_room(self, place: TracePlace) -> bool:
        """Move what can move from a trace's own item to its overflow; tells whether there is room.

        For writers that do not read the trace, once a write was refused.
        """
        item = self.table.get(place.key)
        if item is not None:
            item = self.change(item, Change, follow=False)
        return item is None or item_size(item) <= OWN_ITEM_ROOM

    def change(
        self, item: Item, change: Callable[[Item], Change | None], *, follow: bool = True
    ) -> Item:
        """Change a trace depending on its content; returns the trace after the change.

        ``change`` is called with the trace, again whenever another writer was faster, and returns
        None when there is nothing to do. A trace that has moved is changed in its new place if
        ``follow`` is set. Raises when the trace is gone.
        """
        refused: Change | None = None

        def attempt() -> Item:
            nonlocal item, refused
            whole = read_whole(self.table, [item])[0]
            if whole is None:
                item = self._find_again(item, None, refused, follow=follow)
                raise Outdated
            try:
                made = change(whole.item)
            except MlflowException:
                self._discard(refused)
                raise
            if made is None:
                self._discard(refused)
                return item
            made, replaces = made.stored(item, whole)
            refuse_oversized(self.table.schema, [Put(made.after)])
            try:
                after = self._apply(item, made, replaces=replaces)
            except ConditionFailed as error:
                refused = made
                self._remove(made.parts)
                item = self._find_again(item, error.old, made, follow=follow)
                raise
            except ItemTooLarge as error:
                self._remove(made.parts)
                grown = self.table.get(self.table.schema.key_of(item))
                if grown is None or items.same_edits(grown, item):
                    raise
                item = grown  # others have added tags or links since it was read
                raise Outdated from error
            if made.obsolete:
                self.table.write(list(made.obsolete))
            return after

        return optimistically(f"Trace with ID '{trace_place_of(item).trace_id}'", attempt)

    def _find_again(
        self, item: Item, old: Item | None, made: Change | None, *, follow: bool
    ) -> Item:
        """A trace that is no longer as it was read, as it is now; raises when it is gone."""
        if old is not None:
            return old
        trace_id = trace_place_of(item).trace_id
        self.trace_lookup.forget(trace_id)
        self._discard(made)
        found = self.trace_lookup.find(trace_id) if follow else None
        if found is None:
            raise TraceNotFound(trace_id)
        return found

    def _apply(self, item: Item, made: Change, *, replaces: bool) -> Item:
        """Apply a change to a trace if it is as it was read; returns the trace after it."""
        if made.before or made.parts:
            self.table.write([*made.before, *made.parts])
        place, after = trace_place_of(item), {**made.after, "generation": item["generation"] + 1}
        update, unchanged = items.update_between(item, after), items.has_same(item, "generation")
        own: Put | Patch = Patch(place.key, update, unchanged)
        if replaces or len(update.set) + len(update.remove) > MOST_PATCHED:
            own = Put(after, items.is_unchanged(item))
        if made.together:
            write_with(self.table, own, made.together)
            self.trace_lookup.forget_item(place.trace_id)  # others may have set tags since
        elif isinstance(own, Put):
            self.table.put(after, condition=own.condition)
            self.trace_lookup.note(after)
        else:
            whole = self.table.update(place.key, update, condition=unchanged, returns="new")
            assert whole is not None
            after = self.trace_lookup.note(whole)
        volumes = self.trace_lookup.experiment_lookup.volumes
        if after["request_time"] != item["request_time"]:
            volumes.widen(Volume(place.experiment_id, place.volume), after["request_time"])
        volumes.note_growth(place.experiment_id, place.volume)
        return after

    def _discard(self, made: Change | None) -> None:
        """Remove what was written before a change that is not made."""
        if made is not None:
            self._remove(made.before)

    def _remove(self, written: Sequence[Put]) -> None:
        self.table.write([Delete(self.table.schema.key_of(put.item)) for put in written])


def write_with(table: Table, own: Put | Patch, others: Sequence[Put | Delete]) -> None:
    """Write a trace's own item and other items, all or none.

    Raises ``ConditionFailed`` when the condition of the first does not hold, and ``ItemTooLarge``.
    """
    try:
        table.transact([own, *others])
    except TransactionCancelled as cancelled:
        if is_too_large(cancelled):
            raise ItemTooLarge(str(cancelled)) from cancelled
        if not cancelled.refused(0):
            raise
        raise ConditionFailed(str(cancelled), cancelled.old(0)) from cancelled
