"""Taking away what belongs to nothing, without hurting whoever writes at the same moment.

Most orphans get an expiry of now: nobody sees them from then on, and the storage removes them in
its own time, which costs nothing. Search entries and guards of names are deleted, since they are
read by their keys and stand in somebody's way; each on the condition that what made it an orphan
still holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from boto3.dynamodb.conditions import Attr, ConditionBase

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.shared.bulk import batched
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
from mlflow_dynamodbstore.upkeep.judging import Judged

WRITES_AT_ONCE = 500
_CHECKS = 2  # the run, and the setting that says which texts are indexed


class Remover:
    """Removes orphans; each method returns how many went."""

    def __init__(self, table: Table):
        self._table = table

    def remove(self, orphans: Sequence[Judged], text_fields: Value) -> int:
        """Take orphans away. ``text_fields`` is the setting under which they were judged."""
        of_names: list[Judged] = []
        wrong: list[Judged] = []
        gone: list[Judged] = []
        others: list[Judged] = []
        for orphan in orphans:
            if orphan.what.is_name_entry or orphan.what.entity.endswith(" name"):
                of_names.append(orphan)
            elif not orphan.what.is_search_entry:
                others.append(orphan)
            else:
                (gone if orphan.sealed_as is None else wrong).append(orphan)
        return (
            self._date(others)
            + self._delete(gone)
            + self._delete_wrong(wrong, text_fields)
            + sum(map(self._delete_of_name, of_names))
        )

    def _date(self, orphans: Iterable[Judged]) -> int:
        now = Update(set={TTL: int(self._table.clock())})
        exists = Attr("PK").exists()
        done = 0
        for some in batched(orphans, WRITES_AT_ONCE):
            patches = [Patch(orphan.key, now, condition=exists) for orphan in some]
            try:
                outcomes = self._table.write(patches)
            except IncompleteWrite as error:
                # A patch whose answer was lost cannot be repeated on what it made expire.
                if error.unwritten or self._table.get_many(orphan.key for orphan in some):
                    raise
                done += len(some)
            else:
                done += sum(outcome.status == "applied" for outcome in outcomes)
        return done

    def _delete(self, orphans: Iterable[Judged]) -> int:
        done = 0
        for some in batched(orphans, WRITES_AT_ONCE):
            self._table.write([Delete(orphan.key) for orphan in some])
            done += len(some)
        return done

    def _delete_wrong(self, orphans: Iterable[Judged], text_fields: Value) -> int:
        """Search entries that their run does not say of itself, while it says the same as it did.

        Whoever seals the run raises its generation first, and whoever changes which texts are
        indexed changes the setting first, so neither can be writing such an entry now.
        """

        def place(orphan: Judged) -> tuple[Key, int]:
            assert orphan.what.run is not None
            assert orphan.sealed_as is not None
            return orphan.what.run, orphan.sealed_as

        done = 0
        for (run, generation), of_run in groupby(sorted(orphans, key=place), key=place):
            same = Attr("generation").eq(generation) & Attr("state").eq(SEALED)
            for some in batched(of_run, MAX_TRANSACTION - _CHECKS):
                checks: list[TransactWrite] = [Check(run, same), _same_setting(text_fields)]
                done += self._transact(checks, [orphan.key for orphan in some])
        return done

    def _delete_of_name(self, orphan: Judged) -> int:
        """A guard or an entry of a name, while its owner is gone or has the name it had."""
        (owner,) = orphan.what.owners
        gone: ConditionBase = Attr("PK").not_exists()
        same = gone if orphan.named is None else gone | Attr("name").eq(orphan.named)
        return self._transact([Check(owner, same)], [orphan.key])

    def _transact(self, checks: list[TransactWrite], deleted: Sequence[Key]) -> int:
        try:
            self._table.transact([*checks, *(Delete(key) for key in deleted)])
        except TransactionCancelled as error:
            if any(r is not None and r.code != "ConditionFailed" for r in error.reasons):
                raise
            return 0  # it has changed since it was judged: the next cleanup looks again
        return len(deleted)


def _same_setting(text_fields: Value) -> Check:
    key = access_keys.setting_key(TEXT_FIELDS)
    if text_fields:
        return Check(key, Attr("value").eq(text_fields))
    return Check(key, Attr("PK").not_exists() | Attr("value").eq({}))
