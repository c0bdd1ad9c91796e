"""Finding experiments by the end of their names.

Each experiment has an item with its name spelled backwards, E#NAME_REV. GSI5 lists these items, so
that the names with one end lie side by side. A global index shows a write after a delay, so the
names that were given within the last hour are read from the table too, by LSI2 of their guards.

Guards of older releases are not in LSI2, and their experiments' reversed names not in GSI5. A
search that lists all guards anyway adds those it meets. Once it meets none, a note in CONFIG lets
searches use the indexes for a day; then the guards are listed again, in case an older release has
written since.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import islice

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.conditions import names_experiment
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_items import NAMED_AT, name_of, name_rev_item
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.table.contract import MAX_TRANSACTION, Patch, Put, Query, TransactWrite
from mlflow_dynamodbstore.table.errors import TableError
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item

_logger = logging.getLogger(__name__)

COMPLETE = "state.reversed_names."
"""Begins the name of the setting that says when all reversed names of a workspace were listed."""
COMPLETE_SECONDS = 24 * 3600
RECENT_MS = 3_600_000
"""How long a new name is read from the table; far longer than a global index lags behind."""
MOST_NAMES = 100
"""For an end of more names than this, it is cheaper to list all names."""
MOST_REPAIRS = 500


class ReversedNames:
    """The reversed names of the experiments of each workspace."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.table = context.table
        self.policies = context.policies

    def ids_ending(self, workspace: str, text: str) -> set[str] | None:
        """The experiments whose names may end with a text; None when the indexes cannot tell."""
        if not self._is_complete(workspace):
            return None
        since = self.context.now_ms() - RECENT_MS
        indexed = Query(
            index_keys.reversed_names(workspace),
            where=index_keys.names_ending(text).on("gsi5sk"),
            index="GSI5",
            limit=MOST_NAMES + 1,
        )
        recent = Query(
            access_keys.workspace_pk(workspace),
            where=index_keys.named_since(since).on("lsi2sk"),
            index="LSI2",
            keys_only=True,
            limit=MOST_NAMES + 1,
        )
        found, guards = self.table.map(
            lambda query: list(islice(self.table.items(query), MOST_NAMES + 1)), [indexed, recent]
        )
        if max(len(found), len(guards)) > MOST_NAMES:
            return None
        new = [guard for guard in guards if _may_end(guard, text)]
        return {
            *(experiment_id_of(item) for item in found),
            *(index_keys.named_experiment(str(guard["lsi2sk"])) for guard in new),
        }

    def check(self, workspace: str, guards: Sequence[Item]) -> None:
        """Note that the indexes have all names of a workspace, or add some of those they lack.

        ``guards`` are all of the workspace. A caller that may only read changes nothing.
        """
        missing = [guard for guard in guards if NAMED_AT not in guard]
        try:
            if missing:
                self._add(workspace, missing[:MOST_REPAIRS])
            else:
                self.policies.set(COMPLETE + workspace, int(self.table.clock()))
        except TableError as error:
            _logger.debug("the reversed names of %s stay as they are: %s", workspace, error)

    def _is_complete(self, workspace: str) -> bool:
        checked = self.policies.get(COMPLETE + workspace)
        return isinstance(checked, int) and self.table.clock() - checked < COMPLETE_SECONDS

    def _add(self, workspace: str, guards: Sequence[Item]) -> None:
        """Enter names into the indexes; with each guard, so that a rename cannot be undone."""
        now = self.context.now_ms()
        for some in batched(guards, MAX_TRANSACTION // 2):
            writes: list[TransactWrite] = []
            for guard in some:
                experiment_id = str(guard["experiment_id"])
                entry = {NAMED_AT: index_keys.lsi2_named(experiment_id, now)}
                writes += [
                    Patch(
                        self.table.schema.key_of(guard),
                        Update(set=entry),
                        condition=names_experiment(experiment_id),
                    ),
                    Put(name_rev_item(experiment_id, name_of(guard), workspace)),
                ]
            self.table.transact(writes)


def _may_end(guard: Item, text: str) -> bool:
    """Whether the name of a guard ends with a text; a name that was cut in its key may."""
    name = access_keys.guarded_name_of(str(guard["SK"]))
    return name is None or name.endswith(text)
