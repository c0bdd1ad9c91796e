"""Changing a trace while others may change it too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.places import TracePlace, trace_place_of
from mlflow_dynamodbstore.shared.volumes import Volume
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.request_checks import refuse_oversized
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.traces import items
from mlflow_dynamodbstore.traces.lookup import TraceLookup, TraceNotFound


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

        done = self.trace_lookup.at_place(trace_id, updated)
        self.trace_lookup.forget_item(trace_id)
        if not done:
            raise TraceNotFound(trace_id)

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
            try:
                made = change(item)
            except MlflowException:
                self._discard(refused)
                raise
            if made is None:
                self._discard(refused)
                return item
            try:
                after = self._apply(item, made)
            except ConditionFailed as error:
                refused = made
                self._remove(made.parts)
                item = self._find_again(item, error, made, follow=follow)
                raise
            if made.obsolete:
                self.table.write(list(made.obsolete))
            return after

        return optimistically(f"Trace with ID '{trace_place_of(item).trace_id}'", attempt)

    def _find_again(
        self, item: Item, refused: ConditionFailed, made: Change, *, follow: bool
    ) -> Item:
        """A trace whose change was refused, as it is now; raises when it is gone."""
        if refused.old is not None:
            return refused.old
        trace_id = trace_place_of(item).trace_id
        self.trace_lookup.forget(trace_id)
        self._discard(made)
        found = self.trace_lookup.find(trace_id) if follow else None
        if found is None:
            raise TraceNotFound(trace_id) from refused
        return found

    def _apply(self, item: Item, made: Change) -> Item:
        """Apply a change to a trace if it is as it was read; returns the trace after it."""
        refuse_oversized(self.table.schema, [Put(made.after)])
        if made.before or made.parts:
            self.table.write([*made.before, *made.parts])
        place, after = trace_place_of(item), {**made.after, "generation": item["generation"] + 1}
        update, unchanged = items.update_between(item, after), items.has_same(item, "generation")
        if made.together:
            patch_with(self.table, Patch(place.key, update, unchanged), made.together)
            self.trace_lookup.forget_item(place.trace_id)  # others may have set tags since
        else:
            whole = self.table.update(place.key, update, condition=unchanged, returns="new")
            assert whole is not None
            after = self.trace_lookup.note(whole)
        if after["request_time"] != item["request_time"]:
            volume = Volume(place.experiment_id, place.volume)
            self.trace_lookup.experiment_lookup.volumes.widen(volume, after["request_time"])
        return after

    def _discard(self, made: Change | None) -> None:
        """Remove what was written before a change that is not made."""
        if made is not None:
            self._remove(made.before)

    def _remove(self, written: Sequence[Put]) -> None:
        self.table.write([Delete(self.table.schema.key_of(put.item)) for put in written])


def patch_with(table: Table, patch: Patch, others: Sequence[Put | Delete]) -> None:
    """Change a trace and write other items, all or none.

    Raises ``ConditionFailed`` when the condition of the change does not hold.
    """
    try:
        table.transact([patch, *others])
    except TransactionCancelled as cancelled:
        if not cancelled.refused(0):
            raise
        raise ConditionFailed(str(cancelled), cancelled.old(0)) from cancelled
