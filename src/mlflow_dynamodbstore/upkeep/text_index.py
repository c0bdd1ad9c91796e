"""Which texts are indexed for full-text search: adding one, filling its index, removing one.

A field that is added counts at once for whatever is sealed from then on, and is used by searches
once a backfill has gone through what was there before. Processes keep settings for half a minute,
so a backfill begins only when nobody can be sealing by the old ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.keys.ranks import fts_of_rev, fts_rev_entries_of_type
from mlflow_dynamodbstore.registry.items import name_of_guard
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.experiment_items import name_of
from mlflow_dynamodbstore.shared.places import run_id_of
from mlflow_dynamodbstore.shared.policies import TEXT_FIELDS, Policies, Rules
from mlflow_dynamodbstore.shared.search import name_index
from mlflow_dynamodbstore.shared.search.fulltext import LEVELS, TextField
from mlflow_dynamodbstore.shared.search.name_index import EXPERIMENT_NAME, MODEL_NAME
from mlflow_dynamodbstore.shared.workspaces import all_experiments, all_workspaces
from mlflow_dynamodbstore.table.contract import Delete, Put, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key, Value
from mlflow_dynamodbstore.tracking import sealing
from mlflow_dynamodbstore.tracking.records import RunContents
from mlflow_dynamodbstore.upkeep.run_walk import PAGE, Done, Progress, RunWalk, settle

WRITES_AT_ONCE = 500
SINCE = "since"


class Names(NamedTuple):
    """Names that can be indexed: where they are listed, and whose they are."""

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
    """Refuse a field that does not exist. Raises ``ValueError``."""
    if sealing.tag_of(name) is None and name not in NAMES:
        raise ValueError(
            f"{name!r} cannot be indexed; write run.name, run.tags.<key> or {' or '.join(NAMES)}"
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
        """The fields as the setting has them, read anew."""
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
        self._walk(name).forget()
        self._policies.set(TEXT_FIELDS, {**fields, name: field})

    def backfill(self, name: str) -> Done:
        """Write the entries of what was there before a field was added, and let searches use it.

        It can be interrupted, and goes on where it was. Raises ``ValueError``.
        """
        field = self._field(name)
        settle(self._table, self.fields()[name].get(SINCE, 0), self._sleep, self._progress)
        done = self._backfill_names(field) if name in NAMES else self._backfill_runs(field)
        fields = self.fields()
        if name in fields:
            self._policies.set(TEXT_FIELDS, {**fields, name: {**fields[name], "complete": True}})
        self._walk(name).forget()
        return done

    def remove(self, name: str) -> Done:
        """Stop indexing a text and delete its entries.

        What a process still writes by the old setting within the next minute, cleanup removes.
        """
        fields = self.fields()
        fields.pop(name, None)
        self._policies.set(TEXT_FIELDS, fields)
        pks = [access_keys.workspace_pk(workspace) for workspace in all_workspaces(self._table)]
        pks += [experiment_keys.experiment_pk(number) for number in all_experiments(self._table)]
        done = Done(places_in_all=len(pks))
        for pk in pks:
            done.entries += self._remove_in(pk, fts_rev_entries_of_type(name))
            done.places += 1
            self._progress(done)
        return done

    # --- runs -----------------------------------------------------------------------------------

    def _backfill_runs(self, field: TextField) -> Done:
        done = Done()
        for runs in self._walk(field.name).pages(done, self._progress):
            self._index_runs(field, runs, done)
            self._progress(done)
        return done

    def _index_runs(self, field: TextField, runs: Sequence[Item], done: Done) -> None:
        """Write the entries of what runs have published.

        Also of runs that are live again: whoever seals one takes the entries of its last summary
        to be there.
        """
        rules = Rules(text_fields=(field,))
        for chunk in batched(self._entries(runs, rules, done), WRITES_AT_ONCE):
            self._table.write([sealing.derived_item(key) for key in chunk])
            done.entries += len(chunk)

    def _entries(self, runs: Sequence[Item], rules: Rules, done: Done) -> Iterator[Key]:
        for run in runs:
            if sealing.SUMMARY in run:
                done.entities += 1
                summary = large_values.load(self._table, run, sealing.SUMMARY)
                texts = RunContents(tags=RunContents.from_summary(summary).tags)
                yield from sealing.derived_keys(str(run["PK"]), run_id_of(run), texts, rules)

    # --- names ----------------------------------------------------------------------------------

    def _backfill_names(self, field: TextField) -> Done:
        """Names are few beside runs: a backfill of them that was interrupted begins anew."""
        workspaces, names = all_workspaces(self._table), NAMES[field.name]
        done = Done(places_in_all=len(workspaces))
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

    # --- plumbing -------------------------------------------------------------------------------

    def _field(self, name: str) -> TextField:
        found = self.fields().get(name)
        if found is None:
            raise ValueError(f"{name!r} is not indexed; `fts add {name}` comes first")
        return TextField(name, tuple(found["levels"]), found["complete"])

    def _walk(self, name: str) -> RunWalk:
        return RunWalk(self._table, self._policies, name)

    def _remove_in(self, pk: str, words: Range) -> int:
        removed = 0
        query = Query(pk, where=words.on(), keys_only=True)
        for some in batched(self._table.items(query), WRITES_AT_ONCE):
            back = [self._table.schema.key_of(item) for item in some]
            forward = [Key(pk, fts_of_rev(key.sk)) for key in back]
            # The way back last: by it, a removal that was interrupted finds the rest.
            self._table.write([Delete(k) for k in forward], then=[Delete(k) for k in back])
            removed += 2 * len(back)
        return removed
