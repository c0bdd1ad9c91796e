"""Removing orphans while others write.

Most orphans get an expiry of now: readers no longer see them, and the storage deletes them for
free. Search entries and guards of names are deleted at once, because others read them by their
keys; each on the condition that it is still an orphan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.shared.policies import TEXT_FIELDS
from mlflow_dynamodbstore.table.contract import (
    MAX_TRANSACTION,
    Check,
    Delete,
    IncompleteWrite,
    Patch,
    TransactWrite,
)
from mlflow_dynamodbstore.table.errors import TransactionCancelled
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import TTL, Key, Value
from mlflow_dynamodbstore.tracking.records import SEALED
from mlflow_dynamodbstore.upkeep.orphans import PossibleOrphan

WRITES_AT_ONCE = 500
_CHECKS = 2  # of the run, and of the setting that says which texts are indexed


class Done(NamedTuple):
    """How many orphans got an expiry, for the storage to delete, and how many were deleted."""

    dated: int
    removed: int


class OrphanRemover:
    """Removes orphans; each method but ``remove`` returns how many it dated or deleted."""

    def __init__(self, table: Table):
        self._table = table

    def remove(self, orphans: Sequence[PossibleOrphan], text_fields: Value) -> Done:
        """Remove orphans. ``text_fields`` is the setting under which they were found."""
        of_names: list[PossibleOrphan] = []
        contradicted: list[PossibleOrphan] = []
        of_missing_runs: list[PossibleOrphan] = []
        others: list[PossibleOrphan] = []
        for orphan in orphans:
            if orphan.description.is_name_entry or orphan.description.kind.endswith(" name"):
                of_names.append(orphan)
            elif not orphan.description.is_search_entry:
                others.append(orphan)
            else:
                (of_missing_runs if orphan.sealed_as is None else contradicted).append(orphan)
        return Done(
            self._expire(others),
            self._delete(of_missing_runs)
            + self._delete_contradicted(contradicted, text_fields)
            + sum(map(self._delete_of_name, of_names)),
        )

    def _expire(self, orphans: Iterable[PossibleOrphan]) -> int:
        now = Update(set={TTL: int(self._table.clock())})
        done = 0
        for some in batched(orphans, WRITES_AT_ONCE):
            patches = [Patch(orphan.key, now, condition=PRESENT) for orphan in some]
            try:
                outcomes = self._table.write(patches)
            except IncompleteWrite as error:
                # A patch whose answer was lost has expired its item, and cannot be repeated.
                if error.unwritten or self._table.get_many(orphan.key for orphan in some):
                    raise
                done += len(some)
            else:
                done += sum(outcome.status == "applied" for outcome in outcomes)
        return done

    def _delete(self, orphans: Iterable[PossibleOrphan]) -> int:
        done = 0
        for some in batched(orphans, WRITES_AT_ONCE):
            self._table.write([Delete(orphan.key) for orphan in some])
            done += len(some)
        return done

    def _delete_contradicted(self, orphans: Iterable[PossibleOrphan], text_fields: Value) -> int:
        """Delete search entries that the summary of their run contradicts, if it is unchanged.

        Sealing a run raises its generation first, and changing which texts are indexed changes
        the setting first, so nobody can be writing such an entry now.
        """

        def run_and_generation(orphan: PossibleOrphan) -> tuple[Key, int]:
            assert orphan.description.run is not None
            assert orphan.sealed_as is not None
            return orphan.description.run, orphan.sealed_as

        done = 0
        ordered = sorted(orphans, key=run_and_generation)
        for (run, generation), of_run in groupby(ordered, key=run_and_generation):
            same = Attr("generation").eq(generation) & Attr("state").eq(SEALED)
            for some in batched(of_run, MAX_TRANSACTION - _CHECKS):
                checks: list[TransactWrite] = [Check(run, same), _same_setting(text_fields)]
                done += self._transact(checks, [orphan.key for orphan in some])
        return done

    def _delete_of_name(self, orphan: PossibleOrphan) -> int:
        """Delete a guard or name entry if its owner is gone or still has the name it had."""
        (owner,) = orphan.description.owners
        same = ABSENT if orphan.named is None else ABSENT | Attr("name").eq(orphan.named)
        return self._transact([Check(owner, same)], [orphan.key])

    def _transact(self, checks: list[TransactWrite], deleted: Sequence[Key]) -> int:
        try:
            self._table.transact([*checks, *(Delete(key) for key in deleted)])
        except TransactionCancelled as cancelled:
            if not cancelled.any_refused:
                raise
            return 0  # it has changed since it was checked: the next cleanup checks again
        return len(deleted)


def _same_setting(text_fields: Value) -> Check:
    key = access_keys.setting_key(TEXT_FIELDS)
    if text_fields:
        return Check(key, Attr("value").eq(text_fields))
    return Check(key, ABSENT | Attr("value").eq({}))
