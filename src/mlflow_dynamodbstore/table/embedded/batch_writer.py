"""Many independent writes in one transaction."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from mlflow_dynamodbstore.table.conditions import is_absence
from mlflow_dynamodbstore.table.contract import Check, Delete, Outcome, Put, Write
from mlflow_dynamodbstore.table.embedded.file import File
from mlflow_dynamodbstore.table.embedded.layout import LASTING_COLUMNS, Layout, RowKey
from mlflow_dynamodbstore.table.embedded.row_changes import RecentPuts, RowChanges, WrongGuess
from mlflow_dynamodbstore.table.embedded.writes import PreparedWrite, Writer
from mlflow_dynamodbstore.table.errors import TableError
from mlflow_dynamodbstore.table.request_checks import check_distinct
from mlflow_dynamodbstore.table.values import Item

MOST_VARIABLES = 500
_APPLIED = Outcome("applied")  # may be shared: it has no image that a table would clean


@dataclass(slots=True)
class CheckedWrites:
    """Checked writes: those that need no read, in ``changes``, and those that do, in ``seeing``."""

    changes: RowChanges
    outcomes: list[Outcome]
    seeing: list[tuple[int, PreparedWrite]]

    @property
    def is_applied(self) -> bool:
        """Whether every write was applied."""
        return all(outcome.status == "applied" for outcome in self.outcomes)


class BatchWriter:
    """Does many writes at once."""

    def __init__(self, file: File, layout: Layout, writer: Writer) -> None:
        self._file = file
        self._layout = layout
        self._writer = writer
        self._recent = RecentPuts()
        file.on_rollback = self._forget

    def _forget(self) -> None:
        self._writer.notes.forget()
        self._recent.forget()

    def apply_in_order(self, writes: Sequence[Write], then: Sequence[Write]) -> list[Outcome]:
        """Do many writes, then others in the same transaction if all of the first were applied.

        If not, the others have no outcomes. A write that fails does not affect its neighbours.
        """
        groups = [self._check(some) for some in (writes, then) if some]
        if not groups:
            return []
        done = self._in_one_transaction(groups)
        return [outcome for group in done for outcome in group.outcomes]

    # --- before a transaction -------------------------------------------------------------------

    def _check(self, writes: Sequence[Write]) -> CheckedWrites:
        group = CheckedWrites(RowChanges(self._layout), [_APPLIED] * len(writes), [])
        keys: list[RowKey] = []
        for n, write in enumerate(writes):
            try:
                if type(write) is Put and self._writer.is_blind(write):
                    row = self._layout.row(write.item)
                    group.changes.blind_puts.append(row)
                    keys.append(row[:2])  # type: ignore[arg-type]  # a row begins with its key
                    continue
                prepared = self._writer.prepare(write)
            except TableError as error:
                group.outcomes[n] = Outcome("failed", error=error)
                continue
            keys.append(prepared.key)
            if type(write) is Delete and self._writer.is_blind(write):
                group.changes.blind_deletes.append(prepared.key)
            else:
                group.seeing.append((n, prepared))
        check_distinct(keys)
        return group

    def _in_one_transaction(self, groups: Sequence[CheckedWrites]) -> list[CheckedWrites]:
        """The groups that were begun: up to the first with a write that was not applied."""
        guess = self._recent.is_trusted() and not self._writer.always_reads
        try:
            return self._file.write(
                lambda connection: self._write_groups(connection, groups, guess=guess)
            )
        except WrongGuess:
            self._recent.was_wrong()
            return self._file.write(
                lambda connection: self._write_groups(connection, groups, guess=False)
            )

    # --- inside a transaction -------------------------------------------------------------------

    def _write_groups(
        self, connection: sqlite3.Connection, groups: Sequence[CheckedWrites], *, guess: bool
    ) -> list[CheckedWrites]:
        done = []
        for group in groups:
            if self._writer.always_reads:
                for n, prepared in group.seeing:
                    group.outcomes[n] = self._writer.outcome(connection, prepared)
            else:
                self._write_together(connection, group, guess=guess)
            done.append(group)
            if not group.is_applied:
                break
        return done

    def _write_together(
        self, connection: sqlite3.Connection, group: CheckedWrites, *, guess: bool
    ) -> None:
        """Judge many writes by the stored items, and do together those whose conditions hold.

        The keys differ, so no write of the group changes the item of another.
        """
        changes, outcomes = group.changes, group.outcomes
        changes.reset()
        unknown = []
        for n, prepared in group.seeing:
            outcome = self._guess_outcome(prepared, changes) if guess else None
            if outcome is None:
                unknown.append((n, prepared))
            else:
                outcomes[n] = outcome
        if unknown:
            standing = self._read_items(connection, [p.key for _, p in unknown])
            for n, prepared in unknown:
                outcomes[n] = self._judge(prepared, standing.get(prepared.key), changes)
        changes.run(connection, self._writer.notes)

    def _guess_outcome(self, prepared: PreparedWrite, changes: RowChanges) -> Outcome | None:
        """The outcome of a write if the stored item is the remembered one; None if none is.

        Raises ``WrongGuess`` when it would be refused: no write is refused on a guess.
        """
        row, write = prepared.row, prepared.write
        if row is None or len(row) > LASTING_COLUMNS or type(write) is not Put:
            return None
        if is_absence(write.condition, self._layout.schema.pk):
            changes.inserts.append(row)
            return _APPLIED
        known = self._recent.known.get(prepared.key)
        if known is None:
            return None
        item, body = known
        if prepared.judge is not None and not prepared.judge(item):
            raise WrongGuess
        changes.swap(row, body)
        self._recent.note(prepared.key, row, write.item)
        return Outcome("applied", item) if write.returns == "old" else _APPLIED

    def _judge(self, prepared: PreparedWrite, stands: Item | None, changes: RowChanges) -> Outcome:
        """The outcome of a write, given the stored item."""
        write, judge, row, new = prepared.write, prepared.judge, prepared.row, None
        old = self._writer.unexpired(stands)
        if judge is not None and not judge(old or {}):
            return Outcome("refused", old)
        if isinstance(write, Delete):
            changes.deletes.append(prepared.key)
        elif row is not None and isinstance(write, Put):
            changes.put(row, stands)
            self._recent.note(prepared.key, row, write.item)
        else:
            try:
                row, new = self._writer.updated(prepared, old)
            except TableError as error:
                return Outcome("failed", error=error)
            changes.put(row, stands)
        returns = "none" if isinstance(write, Check) else write.returns
        return Outcome("applied", None if returns == "none" else old if returns == "old" else new)

    def _read_items(
        self, connection: sqlite3.Connection, keys: Sequence[RowKey]
    ) -> dict[RowKey, Item]:
        """The items at these keys."""
        of_partition: dict[str, list[str]] = defaultdict(list)
        for pk, sk in keys:
            of_partition[pk].append(sk)
        found: dict[RowKey, Item] = {}
        for pk, sks in of_partition.items():
            for start in range(0, len(sks), MOST_VARIABLES):
                some = sks[start : start + MOST_VARIABLES]
                rows = connection.execute(self._layout.get_some(len(some)), (pk, *some))
                for sk, ttl, body in rows:
                    found[pk, sk] = self._layout.item(pk, sk, ttl, body)
        return found
