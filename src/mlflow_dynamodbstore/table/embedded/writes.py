"""Single writes, bulk writes and transactions.

A write is checked and turned into a row before the file is locked; inside the transaction there
is only what depends on the item as it stands: its condition, its update, its limits.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence

from mlflow_dynamodbstore.table.conditions import is_absence, predicate
from mlflow_dynamodbstore.table.contract import (
    MAX_TRANSACTION_BYTES,
    Check,
    Delete,
    Outcome,
    Patch,
    Put,
    TransactWrite,
    Write,
)
from mlflow_dynamodbstore.table.embedded.batches import Batch, Memory, Place, Prepared, WrongGuess
from mlflow_dynamodbstore.table.embedded.codec import fingerprint
from mlflow_dynamodbstore.table.embedded.expiry import TOKEN_SECONDS, Notes
from mlflow_dynamodbstore.table.embedded.file import File
from mlflow_dynamodbstore.table.embedded.lag import Lag
from mlflow_dynamodbstore.table.embedded.layout import (
    LASTING_COLUMNS,
    SIZE_COLUMN,
    Layout,
    Row,
    expiry,
    expiry_size,
)
from mlflow_dynamodbstore.table.embedded.requests import (
    check_distinct,
    check_key,
    check_transaction,
    check_update,
)
from mlflow_dynamodbstore.table.errors import (
    CollectionFull,
    ConditionFailed,
    InvalidRequest,
    ItemTooLarge,
    Refusal,
    TableError,
    TransactionCancelled,
)
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.values import TTL, Item

MOST_VARIABLES = 500
_APPLIED = Outcome("applied")  # without an image there is nothing to change in it


class Writer:
    """Writes to a file."""

    def __init__(
        self,
        file: File,
        layout: Layout,
        lag: Lag | None,
        collection_limit: int | None,
        clock: Callable[[], float],
    ) -> None:
        self._file = file
        self._layout = layout
        self._lag = lag
        self._collection_limit = collection_limit
        self._clock = clock
        self.expiry_clock: Callable[[], float] | None = None
        # Whether a write must see the old item even when nobody asked for it.
        self.is_watchful = lag is not None or collection_limit is not None
        self._notes = Notes(self._now)
        self._memory = Memory()
        file.undone = self._forget

    def _now(self) -> float:
        return (self.expiry_clock or self._clock)()

    def _forget(self) -> None:
        self._notes.forget()
        self._memory.forget()

    # --- the ways to write ----------------------------------------------------------------------

    def apply(self, write: Write) -> Item | None:
        """Do one write."""
        prepared = self._prepare(write)
        row = prepared.row
        if self._is_blind(write) and (row is None or expiry(row) is None):
            self._file.write_alone(lambda connection: self._do_blindly(connection, prepared))
            return None
        return self._file.write(lambda connection: self._do(connection, prepared)[0])

    def apply_many(self, writes: Sequence[Write]) -> list[Outcome]:
        """Do many writes in one transaction; one that cannot be done leaves the others alone."""
        if not writes:
            return []
        outcomes: list[Outcome] = [_APPLIED] * len(writes)
        batch = Batch(self._layout)
        seeing: list[tuple[int, Prepared]] = []
        keys: list[Place] = []
        for n, write in enumerate(writes):
            try:
                if type(write) is Put and self._is_blind(write):
                    row = self._layout.row(write.item)
                    batch.blind_puts.append(row)
                    keys.append(row[:2])  # type: ignore[arg-type]  # a row begins with its key
                    continue
                prepared = self._prepare(write)
            except TableError as error:
                outcomes[n] = Outcome("failed", error=error)
                continue
            keys.append(prepared.key)
            if type(write) is Delete and self._is_blind(write):
                batch.blind_deletes.append(prepared.key)
            else:
                seeing.append((n, prepared))
        check_distinct(keys)
        for n, outcome in self._done_together(seeing, batch):
            outcomes[n] = outcome
        return outcomes

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        """Do all writes or none, once for a token."""
        check_transaction(len(writes), token)
        prepared = [self._prepare(write) for write in writes]
        check_distinct([p.key for p in prepared])
        digest = fingerprint(writes)

        def work(connection: sqlite3.Connection) -> None:
            if not self._is_done(connection, token, digest):
                self._do_all(connection, prepared)

        self._file.write(work)

    def redate(self, pk: str, ranges: Sequence[Place], ttl: int | None) -> None:
        """Change the expiry of all items in some ranges of a partition."""
        size = expiry_size(ttl)

        def work(connection: sqlite3.Connection) -> None:
            for low, high in ranges:
                if ttl is not None:
                    self._notes.write_range(connection, pk, low, high, ttl)
                connection.execute(self._layout.redate, (ttl, size, pk, low, high))

        self._file.write(work)

    # --- inside a transaction -------------------------------------------------------------------

    def _do(self, connection: sqlite3.Connection, prepared: Prepared) -> tuple[Item | None, int]:
        """Do one write; the image it asks for, and the size of the item it leaves.

        Raises before anything is written.
        """
        write, key = prepared.write, prepared.key
        row = connection.execute(self._layout.get, key).fetchone()
        stands = None if row is None else self._layout.item(*key, *row)
        old = self._seen(stands)
        if prepared.judge is not None and not prepared.judge(old or {}):
            raise ConditionFailed(old=old)
        if isinstance(write, Check):
            return None, 0
        if isinstance(write, Delete):
            if old is not None:
                self._note(connection, key, stands)
                connection.execute(self._layout.delete, key)
            return old if write.returns == "old" else None, 0
        new_row, new = self._after(prepared, old)
        size: int = new_row[SIZE_COLUMN]  # type: ignore[assignment]  # that column is one
        self._check_room(connection, key, old, size)
        self._note(connection, key, stands)
        self._notes.write(connection, [new_row])
        self._layout.put_for(new_row).run(connection, [new_row])
        return {"none": None, "old": old, "new": new}[write.returns], size

    def _do_blindly(self, connection: sqlite3.Connection, prepared: Prepared) -> None:
        if prepared.row is None:
            connection.execute(self._layout.delete, prepared.key)
        else:
            self._layout.put_for(prepared.row).run(connection, [prepared.row])

    def _after(self, prepared: Prepared, old: Item | None) -> tuple[Row, Item]:
        """What a put or patch makes of an item: its row, and itself."""
        write = prepared.write
        if isinstance(write, Put) and prepared.row is not None:
            return prepared.row, write.item
        if not isinstance(write, Patch):
            raise InvalidRequest(f"{type(write).__name__} leaves no item")
        schema = self._layout.schema
        base = old or dict(zip((schema.pk, schema.sk), prepared.key, strict=True))
        try:
            new = write.update.apply(base)
        except TypeError as error:
            raise InvalidRequest(str(error)) from error
        return self._layout.row(new), new

    def _outcome(self, connection: sqlite3.Connection, prepared: Prepared) -> Outcome:
        try:
            return Outcome("applied", self._do(connection, prepared)[0])
        except ConditionFailed as error:
            return Outcome("refused", error.old)
        except TableError as error:
            return Outcome("failed", error=error)

    def _done_together(
        self, seeing: Sequence[tuple[int, Prepared]], batch: Batch
    ) -> list[tuple[int, Outcome]]:
        """Do a batch and what has to see the items it meets, in one transaction."""
        if self.is_watchful:
            return self._file.write(
                lambda connection: [(n, self._outcome(connection, p)) for n, p in seeing]
            )
        try:
            guess = self._memory.is_trusted()
            return self._file.write(
                lambda connection: self._together(connection, seeing, batch, guess=guess)
            )
        except WrongGuess:
            self._memory.was_wrong()
            return self._file.write(
                lambda connection: self._together(connection, seeing, batch, guess=False)
            )

    def _together(
        self,
        connection: sqlite3.Connection,
        seeing: Sequence[tuple[int, Prepared]],
        batch: Batch,
        *,
        guess: bool,
    ) -> list[tuple[int, Outcome]]:
        """Judge many writes by the items they meet, and do at once those that hold.

        The keys differ, so no write of the group changes what another one meets.
        """
        batch.begin()
        outcomes, unknown = [], []
        for n, prepared in seeing:
            outcome = self._guessed(prepared, batch) if guess else None
            if outcome is None:
                unknown.append((n, prepared))
            else:
                outcomes.append((n, outcome))
        if unknown:
            standing = self._standing(connection, [p.key for _, p in unknown])
            for n, prepared in unknown:
                outcomes.append((n, self._planned(prepared, standing.get(prepared.key), batch)))
        batch.run(connection, self._notes)
        return outcomes

    def _guessed(self, prepared: Prepared, batch: Batch) -> Outcome | None:
        """What becomes of a write if the item it meets is as expected; None without expectation.

        Raises ``WrongGuess`` when it would be refused: nobody is refused on a guess.
        """
        row, write = prepared.row, prepared.write
        if row is None or len(row) > LASTING_COLUMNS or type(write) is not Put:
            return None
        if is_absence(write.condition, self._layout.schema.pk):
            batch.inserts.append(row)
            return _APPLIED
        known = self._memory.known.get(prepared.key)
        if known is None:
            return None
        item, body = known
        if prepared.judge is not None and not prepared.judge(item):
            raise WrongGuess
        batch.swap(row, body)
        self._memory.note(prepared.key, row, write.item)
        return Outcome("applied", item) if write.returns == "old" else _APPLIED

    def _planned(self, prepared: Prepared, stands: Item | None, batch: Batch) -> Outcome:
        write, judge, row, new = prepared.write, prepared.judge, prepared.row, None
        old = self._seen(stands)
        if judge is not None and not judge(old or {}):
            return Outcome("refused", old)
        if isinstance(write, Delete):
            batch.deletes.append(prepared.key)
        elif row is not None and isinstance(write, Put):
            batch.put(row, stands)
            self._memory.note(prepared.key, row, write.item)
        else:
            try:
                row, new = self._after(prepared, old)
            except TableError as error:
                return Outcome("failed", error=error)
            batch.put(row, stands)
        returns = "none" if isinstance(write, Check) else write.returns
        return Outcome("applied", None if returns == "none" else old if returns == "old" else new)

    def _seen(self, item: Item | None) -> Item | None:
        """The item that a write meets; one that has expired is not there."""
        if item is not None and self.expiry_clock is not None:
            ttl = item.get(TTL)
            if ttl is not None and type(ttl) is int and ttl <= self.expiry_clock():
                return None
        return item

    def _standing(self, connection: sqlite3.Connection, keys: Sequence[Place]) -> dict[Place, Item]:
        """The items at these keys."""
        of_partition: dict[str, list[str]] = defaultdict(list)
        for pk, sk in keys:
            of_partition[pk].append(sk)
        found: dict[Place, Item] = {}
        for pk, sks in of_partition.items():
            for start in range(0, len(sks), MOST_VARIABLES):
                some = sks[start : start + MOST_VARIABLES]
                rows = connection.execute(self._layout.get_some(len(some)), (pk, *some))
                for sk, ttl, body in rows:
                    found[pk, sk] = self._layout.item(pk, sk, ttl, body)
        return found

    def _do_all(self, connection: sqlite3.Connection, prepared: Sequence[Prepared]) -> None:
        reasons: list[Refusal | None] = []
        total = 0
        for one in prepared:
            try:
                total += self._do(connection, one)[1]
                reasons.append(None)
            except ConditionFailed as error:
                reasons.append(Refusal("ConditionFailed", str(error), error.old))
            except (ItemTooLarge, CollectionFull) as error:
                reasons.append(Refusal(type(error).__name__, str(error)))
        if any(reasons):
            raise TransactionCancelled(reasons)
        if total > MAX_TRANSACTION_BYTES:
            raise InvalidRequest(
                f"the items of a transaction have {total} bytes, more than {MAX_TRANSACTION_BYTES}"
            )

    def _is_done(self, connection: sqlite3.Connection, token: str, digest: bytes) -> bool:
        """Whether the transaction was done before; notes that it is being done if not."""
        now = self._clock()
        row = connection.execute(
            "SELECT fingerprint FROM tokens WHERE token = ? AND at > ?",
            (token, now - TOKEN_SECONDS),
        ).fetchone()
        if row is None:
            connection.execute(
                "INSERT OR REPLACE INTO tokens VALUES (?, ?, ?)", (token, digest, now)
            )
            return False
        if row[0] != digest:
            raise InvalidRequest("the token was used for another transaction a short while ago")
        return True

    def _check_room(
        self, connection: sqlite3.Connection, key: Place, old: Item | None, size: int
    ) -> None:
        if self._collection_limit is None:
            return
        growth = size - (0 if old is None else item_size(old))
        (used,) = connection.execute(self._layout.partition_size, key[:1]).fetchone()
        if growth > 0 and used + growth > self._collection_limit:
            raise CollectionFull(
                f"the partition {key[0]!r} would pass its limit of {self._collection_limit} bytes"
            )

    def _note(self, connection: sqlite3.Connection, key: Place, before: Item | None) -> None:
        if self._lag is not None:
            self._lag.note(connection, key, before)

    # --- before a transaction -------------------------------------------------------------------

    def _prepare(self, write: TransactWrite) -> Prepared:
        judge = None if write.condition is None else predicate(write.condition)
        if isinstance(write, Put):
            if write.returns == "new":
                raise InvalidRequest("a put returns the old item or none: you have the new one")
            row = self._layout.row(write.item)
            key: Place = row[:2]  # type: ignore[assignment]  # a row begins with it
            return Prepared(write, key, judge, row)
        check_key(*write.key)
        if isinstance(write, Patch):
            check_update(write.update, self._layout.schema)
        elif isinstance(write, Delete) and write.returns == "new":
            raise InvalidRequest("a delete leaves no new item to return")
        return Prepared(write, write.key, judge)

    def _is_blind(self, write: Write) -> bool:
        """Whether a write need not see the item it meets."""
        return (
            write.condition is None
            and write.returns == "none"
            and type(write) is not Patch
            and not self.is_watchful
        )
