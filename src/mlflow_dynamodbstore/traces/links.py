"""Links from traces to runs and to prompts.

A link may come before its trace, since clients send traces in the background. It waits at the key
of the trace's locator, and the call that begins the trace takes it into the trace's own item.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from boto3.dynamodb.conditions import ConditionBase
from mlflow.entities.model_registry import PromptVersion
from mlflow.store.tracking import MAX_TRACE_LINKS_PER_REQUEST

from mlflow_dynamodbstore.keys.traces import trace_locator_key
from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.places import TracePlace, trace_place_of
from mlflow_dynamodbstore.shared.policies import TRACE_RETENTION
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.run_lookup import RunLookup
from mlflow_dynamodbstore.table.contract import (
    IncompleteWrite,
    Outcome,
    Patch,
    is_full,
    is_too_large,
)
from mlflow_dynamodbstore.table.errors import TableError
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import TTL, Item
from mlflow_dynamodbstore.traces import items
from mlflow_dynamodbstore.traces.changes import TraceChanges
from mlflow_dynamodbstore.traces.creation import LATE_SECONDS
from mlflow_dynamodbstore.traces.items import PROMPT_LINK, RUN_LINK
from mlflow_dynamodbstore.traces.lookup import TraceLookup

WAIT_SECONDS = 2 * LATE_SECONDS
PAUSE_SECONDS = 0.05
LONGEST_RUN_ID = 2_000
"""Characters; MLflow's ids have 32, and those of runs that were imported may have a few more."""


class TraceLinks:
    """Linking traces; linking twice is the same as linking once."""

    def __init__(
        self,
        context: Context,
        run_lookup: RunLookup,
        trace_lookup: TraceLookup,
        trace_changes: TraceChanges,
    ) -> None:
        self.context = context
        self.table = context.table
        self.run_lookup = run_lookup
        self.trace_lookup = trace_lookup
        self.trace_changes = trace_changes

    def link_traces_to_run(self, trace_ids: list[str], run_id: str) -> None:
        if not trace_ids:
            return
        if len(trace_ids) > MAX_TRACE_LINKS_PER_REQUEST:
            raise invalid(
                f"Cannot link more than {MAX_TRACE_LINKS_PER_REQUEST} traces to a run in "
                f"a single request. Provided {len(trace_ids)} traces."
            )
        if len(run_id) > LONGEST_RUN_ID:
            raise invalid(f"A run id has at most {LONGEST_RUN_ID} characters, not {len(run_id)}.")
        if self.context.has_workspaces():
            self.run_lookup.get(run_id)  # refuses runs of other workspaces
        link = Update(set={RUN_LINK + run_id: True})
        missing = self._update_all(trace_ids, link)
        if missing and not self.context.has_workspaces():
            ttl = self.context.policies.expiry(TRACE_RETENTION)
            expiring = {} if ttl is None else {TTL: ttl}
            self._update_early(missing, replace(link, set={**link.set, **expiring}), link)

    def unlink_traces_from_run(self, trace_ids: list[str], run_id: str) -> None:
        link = Update(remove=(RUN_LINK + run_id,))
        missing = self._update_all(trace_ids, link)
        if missing and not self.context.has_workspaces():
            self._update_early(missing, link, link, condition=PRESENT)

    def link_prompts_to_trace(self, trace_id: str, prompt_versions: list[PromptVersion]) -> None:
        if not prompt_versions:
            return
        named = {f"{PROMPT_LINK}{prompt.name}/{prompt.version}": True for prompt in prompt_versions}
        self.trace_changes.update(trace_id, Update(set=named))

    def _update_early(
        self,
        trace_ids: list[str],
        early: Update,
        update: Update,
        condition: ConditionBase | None = None,
    ) -> None:
        """Link traces that are not there yet; the call that begins one takes the links over.

        A trace that has been begun since is updated where it lies.
        """
        waits = items.NOT_LOCATED if condition is None else items.NOT_LOCATED & condition
        linked = items.counted_edit(early)
        outcomes = self.table.write(
            [Patch(trace_locator_key(one), linked, condition=waits) for one in trace_ids]
        )
        begun = [
            one
            for one, done in zip(trace_ids, outcomes, strict=True)
            if done.status != "applied" and items.is_located(done.image)
        ]
        if self._update_all(begun, update):
            self._update_beginning(begun, linked, update)

    def _update_beginning(self, trace_ids: list[str], early: Update, update: Update) -> None:
        """Link traces that have a locator and no own item yet.

        The link goes to the locator first. Then the own item is waited for, longer than the call
        that writes it takes without looking at the locator again (``creation.LATE_SECONDS``).
        """
        self.table.write(
            [Patch(trace_locator_key(one), early, condition=PRESENT) for one in trace_ids]
        )
        until = time.monotonic() + WAIT_SECONDS
        while (trace_ids := self._update_all(trace_ids, update)) and time.monotonic() < until:
            time.sleep(PAUSE_SECONDS)

    def _find_places(self, trace_ids: list[str]) -> list[TracePlace]:
        """The places of those traces that the active workspace has."""
        return [trace_place_of(item) for item in self.trace_lookup.find_many(trace_ids).values()]

    def _update_all(self, trace_ids: list[str], update: Update) -> list[str]:
        """Update the traces that are there; returns the ids of the others."""
        linked = items.counted_edit(update)
        before = self.trace_lookup.find_many(trace_ids).values()
        places = list(map(trace_place_of, before))
        found = {place.trace_id for place in places}
        while places:
            try:
                outcomes = self._write(places, linked)
            except IncompleteWrite as error:
                if is_full(error):
                    self._take_back(error, update, before)
                raise
            gone = [p for p, done in zip(places, outcomes, strict=True) if done.status != "applied"]
            for place in places:
                self.trace_lookup.forget_item(place.trace_id)
            # A refused trace has moved, or was deleted and needs no link.
            for place in gone:
                self.trace_lookup.forget(place.trace_id)
            now = self._find_places([place.trace_id for place in gone])
            places = [place for place in now if place not in gone]
        return [one for one in dict.fromkeys(trace_ids) if one not in found]

    def _take_back(
        self, incomplete: IncompleteWrite, update: Update, before: Iterable[Item]
    ) -> None:
        """Remove new links from some traces when the partition of another one is full."""
        removal = items.counted_edit(Update(remove=tuple(update.set)))
        unlinked = {
            self.table.schema.key_of(item)
            for item in before
            if not update.set.keys() <= item.keys()
        }
        linked = [write.key for write in incomplete.written if isinstance(write, Patch)]
        self.table.write([Patch(key, removal, PRESENT) for key in linked if key in unlinked])

    def _write(self, places: Sequence[TracePlace], linked: Update) -> list[Outcome]:
        patches = [Patch(place.key, linked, condition=PRESENT) for place in places]
        try:
            return self.table.write(patches)
        except TableError as error:
            if not is_too_large(error) or not all(map(self.trace_changes.make_room, places)):
                raise
            return self.table.write(patches)
