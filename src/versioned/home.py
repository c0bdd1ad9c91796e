"""What every operation needs: the table, the storage, and which part of each is ours.

Several repositories may share a table, and several a storage, without seeing each other. A storage
carries an identity, written into it once; the table remembers which partition prefix and which
folder of the storage belong to it. The first repository of a table gets the empty prefix, so that
its keys are exactly those of the seed (see docs/adr/0020).
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock

from boto3.dynamodb.conditions import Attr, ConditionBase

from mlflow_dynamodbstore.table.contract import Put, TransactWrite
from mlflow_dynamodbstore.table.errors import TransactionCancelled
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key, Value
from versioned import times
from versioned.errors import Contended, Corrupt, InvalidName
from versioned.keys import TABLE, Keys, Registration
from versioned.names import check_filename
from versioned.storage import Storage

ATTEMPTS = 200
LONGEST_PAUSE = 0.25
ABSENT = Attr(TABLE.pk).not_exists()
PRESENT = Attr(TABLE.pk).exists()

_NOBODYS = Keys("?:")
"""Keys that no repository has, for reading from one that was never written to."""


@dataclass(frozen=True)
class Place:
    """The part of the table and the part of the storage that belong to a repository."""

    keys: Keys
    folder: str


@dataclass
class Home:
    """A repository's table and storage, its clock, and who works in it."""

    table: Table
    storage: Storage
    namespace: str | None = None
    actor: str = "unknown"
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)
    _place: Place | None = None
    _finding: Lock = field(default_factory=Lock)

    @property
    def now(self) -> datetime:
        return times.from_seconds(self.clock())

    @property
    def keys(self) -> Keys:
        """The keys to read with."""
        if self.namespace is not None:
            return Keys(Registration.prefix_of(Registration.by_namespace(self.namespace)))
        place = self.find()
        if place is not None:
            return place.keys
        # Rows that PynamoDB's models wrote lie where the first repository of the table will be.
        return Keys() if self.table.get(Registration.FIRST) is None else _NOBODYS

    def find(self) -> Place | None:
        """Where this repository is, or None as long as nothing was ever written to it."""
        if self._place is None:
            key = self._registration_key(self.storage.identity)
            self._place = _place(self.table.get(key)) if key else None
        return self._place

    def claim(self) -> Place:
        """Where this repository is; a new one gets its place now."""
        with self._finding:
            return self.find() or self._register()

    def attempts(self) -> Iterator[int]:
        """Count tries of a change that others may get ahead of, pausing between them.

        Raises ``Contended`` when they were all in vain.
        """
        for attempt in range(ATTEMPTS):
            if attempt:
                self.sleep(self.rng.uniform(0, min(LONGEST_PAUSE, 0.005 * 2 ** min(attempt, 10))))
            yield attempt
        raise Contended(
            f"other writers got ahead {ATTEMPTS} times; nothing was changed, try again later"
        )

    def changed(self, writes: list[TransactWrite]) -> TransactionCancelled | None:
        """Do all writes or none; returns the refusal when the table is not as it was read."""
        try:
            self.table.transact(writes)
        except TransactionCancelled as error:
            if not any(r is not None and r.code == "ConditionFailed" for r in error.reasons):
                raise
            return error
        return None

    # --- finding a place -------------------------------------------------------------------------

    def _registration_key(self, identify: Callable[[], str | None]) -> Key | None:
        if self.namespace is not None:
            return Registration.by_namespace(self.namespace)
        identity = identify()
        return Registration.by_storage(identity) if identity else None

    def _register(self) -> Place:
        key = self._registration_key(lambda: self.storage.claim(uuid.uuid4().hex))
        if key is None:
            raise AssertionError("a claimed storage has an identity")
        for _ in self.attempts():
            found = self.table.get_many([key, Registration.FIRST])
            self._place = _place(found.get(key))
            if self._place is not None:
                return self._place
            self.changed(self._registration(key, Registration.FIRST in found))
        raise AssertionError("attempts end by raising")

    def _registration(self, key: Key, not_the_first: bool) -> list[TransactWrite]:
        prefix = ""
        if self.namespace is not None or not_the_first:
            prefix = Registration.prefix_of(key)
        item: Item = {
            "pk": key.pk,
            "sk": key.sk,
            "prefix": prefix,
            "folder": uuid.uuid4().hex[:12],
            "storage": self.storage.uri,
            "update_at": times.to_text(self.now),
        }
        writes: list[TransactWrite] = [Put(item, ABSENT)]
        if not prefix:
            first = Registration.FIRST
            writes.append(Put({"pk": first.pk, "sk": first.sk, "owner": key.sk}, ABSENT))
        return writes


def unchanged(attribute: str, value: Value) -> ConditionBase:
    """Holds while an attribute has the value that was read, None for none."""
    return Attr(attribute).not_exists() if value is None else Attr(attribute).eq(value)


def _place(item: Item | None) -> Place | None:
    if item is None:
        return None
    try:
        return Place(Keys(str(item["prefix"])), check_filename(item["folder"]))
    except InvalidName as error:
        raise Corrupt(f"the row of this repository's folder is damaged: {error}") from error
