"""What every part of the trace store shares: finding a trace, and changing it safely."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from boto3.dynamodb.conditions import Attr
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_DOES_NOT_EXIST, TEMPORARILY_UNAVAILABLE
from mlflow.utils.mlflow_tags import MLFLOW_ARTIFACT_LOCATION
from mlflow.utils.uri import append_to_uri_path

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.shared.policies import TRACE_RETENTION
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.traces import items
from mlflow_dynamodbstore.traces.items import TracePlace, place_of
from mlflow_dynamodbstore.traces.paths import IN_TIME, IN_TIME_ONCE
from mlflow_dynamodbstore.tracking.experiment_items import OLD_TRACES
from mlflow_dynamodbstore.tracking.items import experiment_id_of
from mlflow_dynamodbstore.tracking.lookups import PLACES_KEPT, Recent, TrackingBase

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

IMAGES_KEPT = 1000
LARGEST_IMAGE = 8 * 1024
EXPERIMENT_SECONDS = 5.0
MOST_TRIES = 50
TRACE_FOLDER_NAME = "traces"

EXISTS = Attr("generation").exists()
"""That there is a trace's own item."""


@dataclass(frozen=True)
class Change:
    """What becomes of a trace's own item, and what is written before and removed after.

    What is written or removed ``together`` with it lies where others may write too: a long
    assessment, which is nothing without its head in the trace.
    """

    after: Item
    before: Sequence[Put] = ()
    parts: Sequence[Put] = ()  # as ``before``, and of no use to a second try
    together: Sequence[Put | Delete] = ()
    obsolete: Sequence[Delete] = ()


class TracesBase(TrackingBase):
    """The ground the modules about traces stand on."""

    @classmethod
    def on(cls, table: Table) -> Self:
        """This part alone on a table, for upkeep: opening it writes nothing."""
        made = cls()
        made._open(table, "")
        return made

    def _open(self, table: Table, artifact_root_uri: str) -> None:
        super()._open(table, artifact_root_uri)
        self._trace_homes: Recent[str, str] = Recent(PLACES_KEPT, float("inf"))
        self._trace_images: Recent[str, Item] = Recent(IMAGES_KEPT, float("inf"))
        self._lately_active: Recent[str, Item] = Recent(PLACES_KEPT, EXPERIMENT_SECONDS)
        self._without_old_traces: Recent[str, bool] = Recent(PLACES_KEPT, float("inf"))

    # --- experiments ----------------------------------------------------------------------------

    def _forget_experiment(self, experiment_id: str) -> None:
        super()._forget_experiment(experiment_id)
        self._lately_active.forget(experiment_id)

    def _experiment_for_traces(self, experiment_id: str | int | None) -> Item:
        """An active experiment, or one that was a few seconds ago; MLflow's errors for another."""
        known = self._lately_active.get(str(experiment_id))
        if known is not None and known["workspace"] == self._get_active_workspace():
            return known
        item = self._active_experiment(experiment_id)
        self._lately_active.put(experiment_id_of(item), item)
        return item

    def _artifact_tag(self, experiment: Item, trace_id: str) -> dict[str, str]:
        """The tag that says where the artifacts of a trace go."""
        location = append_to_uri_path(
            experiment["artifact_location"],
            TRACE_FOLDER_NAME,
            trace_id,
            self.ARTIFACTS_FOLDER_NAME,
        )
        return {MLFLOW_ARTIFACT_LOCATION: location}

    def _trace_ttl(self) -> int | None:
        """When a trace that begins now expires."""
        return self.policies.expiry(TRACE_RETENTION)

    # --- finding --------------------------------------------------------------------------------

    def _trace_item(self, trace_id: str) -> Item:
        """A trace's own item; raises when the active workspace has no such trace."""
        item = self._find_trace(trace_id)
        if item is None:
            raise TraceNotFound(trace_id)
        return item

    def _find_trace(self, trace_id: str) -> Item | None:
        """A trace's own item, or None when the active workspace has no such trace."""
        return self._at_trace(trace_id, lambda place: self.table.get(place.key))

    def _at_trace(self, trace_id: str, act: Callable[[TracePlace], T | None]) -> T | None:
        """What there is where a trace lies, or None when the active workspace has no such trace.

        One that is not where it was looked for may have moved, or been written anew.
        """
        tried: TracePlace | None = None
        while (place := self._find_trace_place(trace_id)) not in (None, tried):
            assert place is not None
            found = act(place)
            if found is not None:
                return found
            self._forget_trace(trace_id)
            tried = place
        return None

    def _update_trace(self, trace_id: str, update: Update) -> None:
        """Change a trace, whatever it is; raises when the active workspace has no such trace."""

        def updated(place: TracePlace) -> bool | None:
            try:
                self.table.update(place.key, items.edited(update), condition=EXISTS)
            except ConditionFailed:
                return None
            return True

        done = self._at_trace(trace_id, updated)
        self._trace_images.forget(trace_id)
        if not done:
            raise TraceNotFound(trace_id)

    def _find_trace_place(self, trace_id: str) -> TracePlace | None:
        """Where a trace lies or lay, or None when the active workspace has no such trace."""
        home = self._trace_homes.get(trace_id)
        if home is None or not self._is_in_workspace(home):
            found = self.table.get(trace_keys.trace_locator_key(trace_id))
            if found is None:
                return None
            home = str(found["experiment_id"])
            self._trace_homes.put(trace_id, home)
        return TracePlace(home, trace_id) if self._is_in_workspace(home) else None

    def _find_trace_items(self, trace_ids: Iterable[str]) -> dict[str, Item]:
        """The own items of many traces, by id; in two batches of requests.

        Those that are not where they are remembered to be take two more.
        """
        wanted = list(dict.fromkeys(trace_ids))
        homes = {one: home for one in wanted if (home := self._trace_homes.get(one)) is not None}
        homes.update(self._locate_traces(one for one in wanted if one not in homes))
        found = self._traces_at(homes)
        if gone := [one for one in homes if one not in found]:
            for one in gone:
                self._forget_trace(one)
            now = self._locate_traces(gone)
            found.update(self._traces_at({k: v for k, v in now.items() if v != homes[k]}))
        return found

    def _locate_traces(self, trace_ids: Iterable[str]) -> dict[str, str]:
        """The experiments that hold traces, by the ids of these."""
        locators = {trace_keys.trace_locator_key(trace_id): trace_id for trace_id in trace_ids}
        homes = {
            locators[key]: str(found["experiment_id"])
            for key, found in self.table.get_many(locators).items()
        }
        for trace_id, home in homes.items():
            self._trace_homes.put(trace_id, home)
        return homes

    def _traces_at(self, homes: Mapping[str, str]) -> dict[str, Item]:
        places = {
            TracePlace(home, trace_id).key: trace_id
            for trace_id, home in homes.items()
            if self._is_in_workspace(home)
        }
        return {places[key]: item for key, item in self.table.get_many(places).items()}

    def _locate_again(self, place: TracePlace, ttl: int | None) -> str:
        """Make sure that a trace which is there has a locator; gives where that says it is."""
        while (found := self.table.get(trace_keys.trace_locator_key(place.trace_id))) is None:
            with suppress(ConditionFailed):
                self.table.put(items.locator(place, ttl), condition=Attr("PK").not_exists())
                return place.experiment_id
        return str(found["experiment_id"])

    def _note_trace(self, item: Item) -> Item:
        """Remember a trace, so that the next call about it need not read it first."""
        place = place_of(item)
        self._trace_homes.put(place.trace_id, place.experiment_id)
        facts = item.get("facts")
        if isinstance(facts, dict) or len(facts or b"") > LARGEST_IMAGE or len(item) > IMAGES_KEPT:
            self._trace_images.forget(place.trace_id)
        else:
            self._trace_images.put(place.trace_id, item)
        return item

    def _forget_trace(self, trace_id: str) -> None:
        self._trace_homes.forget(trace_id)
        self._trace_images.forget(trace_id)

    def _known_trace(self, trace_id: str) -> Item | None:
        """A trace's own item as it was a moment ago; good enough to try a change on."""
        item = self._trace_images.get(trace_id)
        if item is None or not self._is_in_workspace(place_of(item).experiment_id):
            return None
        return item

    def _guessing(
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
                self._forget_trace(place_of(guess).trace_id)
        return otherwise()

    def _experiments_in_workspace(self) -> list[str]:
        """The ids of all experiments of the active workspace."""
        pk = access_keys.workspace_pk(self._get_active_workspace())
        guards = self.table.items(Query(pk, where=access_keys.EXPERIMENT_NAMES.on()))
        return [str(guard["experiment_id"]) for guard in guards]

    def _time_indexes(self, experiment_ids: Sequence[str]) -> dict[str, str]:
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

    # --- changing -------------------------------------------------------------------------------

    def _change_trace(
        self, item: Item, change: Callable[[Item], Change | None], *, follow: bool = True
    ) -> Item:
        """Change a trace depending on what it is; done again when somebody else was faster.

        A trace that was moved meanwhile is changed where it is then, unless told not to ``follow``
        it. Raises when it is gone. ``change`` may be called several times, with the trace as it
        then is, and gives None when there is nothing to do.
        """
        refused: Change | None = None
        for _ in range(MOST_TRIES):
            try:
                made = change(item)
            except MlflowException:
                self._discard_change(refused)
                raise
            if made is None:
                self._discard_change(refused)
                return item
            try:
                after = self._apply_trace_change(item, made)
            except ConditionFailed as error:
                refused = made
                self.table.write([_removal(self.table, put) for put in made.parts])
                item = self._trace_now(item, error, made, follow=follow)
            else:
                if made.obsolete:
                    self.table.write(list(made.obsolete))
                return after
        raise MlflowException(
            f"Trace with ID '{place_of(item).trace_id}' is being changed by too many others.",
            TEMPORARILY_UNAVAILABLE,
        )

    def _trace_now(
        self, item: Item, refused: ConditionFailed, made: Change, *, follow: bool
    ) -> Item:
        """The trace that a change was refused for, as it is now; raises when it is gone."""
        if refused.old is not None:
            return refused.old
        trace_id = place_of(item).trace_id
        self._forget_trace(trace_id)
        self._discard_change(made)
        found = self._find_trace(trace_id) if follow else None
        if found is None:
            raise TraceNotFound(trace_id) from refused
        return found

    def _apply_trace_change(self, item: Item, made: Change) -> Item:
        """Make a change to a trace as it was read; gives the trace after it."""
        if made.before or made.parts:
            self.table.write([*made.before, *made.parts])
        generation = item["generation"]
        place, after = place_of(item), {**made.after, "generation": generation + 1}
        update, unchanged = items.change(item, after), Attr("generation").eq(generation)
        if made.together:
            try:
                self.table.transact([Patch(place.key, update, unchanged), *made.together])
            except TransactionCancelled as error:
                if (reason := error.reasons[0]) is None or reason.code != "ConditionFailed":
                    raise
                raise ConditionFailed(str(error), reason.old) from error
            self._trace_images.forget(place.trace_id)  # what others have set is not in it
            return after
        whole = self.table.update(place.key, update, condition=unchanged, returns="new")
        assert whole is not None
        return self._note_trace(whole)

    def _discard_change(self, made: Change | None) -> None:
        """Remove what was written for a change that did not happen."""
        if made is not None and made.before:
            self.table.write([_removal(self.table, put) for put in made.before])


def _removal(table: Table, put: Put) -> Delete:
    return Delete(table.schema.key_of(put.item))


class TraceNotFound(MlflowException):
    """MLflow's error for a trace that does not exist, or not in this workspace."""

    def __init__(self, trace_id: str):
        super().__init__(f"Trace with ID '{trace_id}' not found.", RESOURCE_DOES_NOT_EXIST)
