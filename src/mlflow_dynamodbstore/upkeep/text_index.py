"""Choosing which texts are indexed for full-text search, and filling their index.

A new field applies at once to the runs that are sealed from then on. Searches use it after a
backfill has indexed the rest. Processes cache settings for half a minute, so a backfill first waits
until none of them seals runs by the old setting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.keys.ranks import forward_fts, fts_rev_entries_of_type
from mlflow_dynamodbstore.registry.items import name_of_guard
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.experiment_items import name_of
from mlflow_dynamodbstore.shared.places import run_id_of
from mlflow_dynamodbstore.shared.policies import TEXT_FIELDS, Policies, Rules
from mlflow_dynamodbstore.shared.search import name_index
from mlflow_dynamodbstore.shared.search.fulltext import LEVELS, TextField
from mlflow_dynamodbstore.shared.search.name_index import EXPERIMENT_NAME, MODEL_NAME
from mlflow_dynamodbstore.shared.volumes import Volumes
from mlflow_dynamodbstore.shared.workspaces import all_experiments, all_workspaces
from mlflow_dynamodbstore.table.contract import Delete, Put, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key, Value
from mlflow_dynamodbstore.tracking import summaries
from mlflow_dynamodbstore.tracking.records import RunContents
from mlflow_dynamodbstore.upkeep.backfill import (
    PAGE,
    BackfillProgress,
    Progress,
    ResumableRuns,
    wait_until_known,
)

WRITES_AT_ONCE = 500
SINCE = "since"


class Names(NamedTuple):
    """Names that can be indexed: the guards that list them, and how to read a guard."""

    guards: Range
    entity_of: Callable[[Item], str]
    name_of: Callable[[Item], str]


NAMES: Mapping[str, Names] = {
    EXPERIMENT_NAME: Names(
        access_keys.EXPERIMENT_NAMES, lambda guard: str(guard["experiment_id"]), name_of
    ),
    MODEL_NAME: Names(access_keys.MODEL_NAMES, name_of_guard, name_of_guard),
}


def check_field(name: str) -> None:
    """Raise ``ValueError`` for a field that does not exist."""
    if summaries.tag_of(name) is None and name not in NAMES:
        raise ValueError(
            f"{name!r} cannot be indexed; give run.name, run.tags.<key>, {' or '.join(NAMES)}"
        )


class TextIndex:
    """The full-text fields of one table."""

    def __init__(
        self,
        table: Table,
        policies: Policies | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        progress: Progress = lambda _: None,
    ):
        self._table = table
        self._policies = policies or Policies(table)
        self._sleep = sleep
        self._progress = progress

    def fields(self) -> dict[str, Value]:
        """The fields of the setting, read from the table."""
        fields: dict[str, Value] = dict(self._policies.all()[TEXT_FIELDS])
        return fields

    def add(self, name: str, levels: Sequence[str] = LEVELS) -> None:
        """Index a text from now on. Raises ``ValueError``."""
        check_field(name)
        chosen = sorted(set(levels) & set(LEVELS)) or list(LEVELS)
        fields = self.fields()
        before = fields.get(name)
        if before is not None and before["levels"] == chosen:
            return
        field = {"levels": chosen, "complete": False, SINCE: int(self._table.clock())}
        self._runs(name).forget_position()
        self._policies.set(TEXT_FIELDS, {**fields, name: field})

    def backfill(self, name: str) -> BackfillProgress:
        """Index the texts that are older than a field, and let searches use the field.

        If interrupted, it resumes where it was. Raises ``ValueError``.
        """
        field = self._field(name)
        wait_until_known(
            self._table, self.fields()[name].get(SINCE, 0), self._sleep, self._progress
        )
        done = self._backfill_names(field) if name in NAMES else self._backfill_runs(field)
        fields = self.fields()
        if name in fields:
            filled = {**fields[name], "complete": True, "gsi2": True}
            self._policies.set(TEXT_FIELDS, {**fields, name: filled})
        self._runs(name).forget_position()
        return done

    def remove(self, name: str) -> BackfillProgress:
        """Stop indexing a text, and delete its entries.

        Cleanup removes the entries that processes write by the old setting for another minute.
        """
        fields = self.fields()
        fields.pop(name, None)
        self._policies.set(TEXT_FIELDS, fields)
        pks = [access_keys.workspace_pk(workspace) for workspace in all_workspaces(self._table)]
        pks += [one.pk for one in Volumes(self._table).of(all_experiments(self._table))]
        done = BackfillProgress(places_in_all=len(pks))
        for pk in pks:
            done.entries += self._remove_in(pk, fts_rev_entries_of_type(name))
            done.places += 1
            self._progress(done)
        return done

    # --- runs -----------------------------------------------------------------------------------

    def _backfill_runs(self, field: TextField) -> BackfillProgress:
        done = BackfillProgress()
        for runs in self._runs(field.name).pages(done, self._progress):
            self._index_runs(field, runs, done)
            self._progress(done)
        return done

    def _index_runs(self, field: TextField, runs: Sequence[Item], done: BackfillProgress) -> None:
        """Write the entries of the summaries of runs.

        This includes runs that are live again: sealing relies on the entries of the last summary.
        """
        rules = Rules(text_fields=(field,))
        for chunk in batched(self._entries(runs, rules, done), WRITES_AT_ONCE):
            self._table.write(
                [
                    *(summaries.derived_item(key) for key in chunk),
                    *summaries.time_of_texts(str(runs[0]["PK"]), chunk, self._table.clock()),
                ]
            )
            done.entries += len(chunk)

    def _entries(self, runs: Sequence[Item], rules: Rules, done: BackfillProgress) -> Iterator[Key]:
        for run in runs:
            if summaries.SUMMARY in run:
                done.entities += 1
                summary = large_values.load(self._table, run, summaries.SUMMARY)
                texts = RunContents(tags=RunContents.from_summary(summary).tags)
                yield from summaries.derived_keys(str(run["PK"]), run_id_of(run), texts, rules)

    # --- names ----------------------------------------------------------------------------------

    def _backfill_names(self, field: TextField) -> BackfillProgress:
        """Index names. There are few, so an interrupted backfill starts over."""
        workspaces, names = all_workspaces(self._table), NAMES[field.name]
        done = BackfillProgress(places_in_all=len(workspaces))
        for workspace in workspaces:
            pk = access_keys.workspace_pk(workspace)
            guards = self._table.items(Query(pk, where=names.guards.on()))
            for some in batched(guards, PAGE):
                entries = [
                    Put(item)
                    for guard in some
                    for item in name_index.items(
                        field, workspace, names.entity_of(guard), names.name_of(guard)
                    )
                ]
                self._table.write(entries)
                done.entities += len(some)
                done.entries += len(entries)
                self._progress(done)
            done.places += 1
        return done

    # --- helpers --------------------------------------------------------------------------------

    def _field(self, name: str) -> TextField:
        found = self.fields().get(name)
        if found is None:
            raise ValueError(f"{name!r} is not indexed; run `fts add {name}` first")
        return TextField(name, tuple(found["levels"]), found["complete"])

    def _runs(self, name: str) -> ResumableRuns:
        return ResumableRuns(self._table, self._policies, name)

    def _remove_in(self, pk: str, words: Range) -> int:
        removed = 0
        query = Query(pk, where=words.on(), keys_only=True)
        for some in batched(self._table.items(query), WRITES_AT_ONCE):
            back = [self._table.schema.key_of(item) for item in some]
            forward = [Key(pk, forward_fts(key.sk)) for key in back]
            # The reversed entries last: by them a removal that was interrupted finds the rest.
            self._table.write([Delete(k) for k in forward], then=[Delete(k) for k in back])
            removed += 2 * len(back)
        return removed
