"""The contract between a table and its engines.

An *engine* sends requests of the size that DynamoDB takes to one storage: DynamoDB, or a SQLite
file. :class:`~mlflow_dynamodbstore.table.table.Table` stands on an engine and adds what all engines
need. Wrappers (retries, metering, faults, slow-call log) are engines around engines.

Conditions are ``boto3.dynamodb.conditions`` objects: ``Attr(...)`` for conditions and filters,
``Key(<sort key attribute>)`` for the range of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, Union

from boto3.dynamodb.conditions import ConditionBase

from mlflow_dynamodbstore.table.errors import (
    CollectionFull,
    ItemTooLarge,
    RefusalCode,
    TableError,
    TransactionCancelled,
)
from mlflow_dynamodbstore.table.schema import Schema
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

# Writes and outcomes are made by the thousand, so they are not frozen: making one would take four
# times as long. Treat a write as if it were.

Returns: TypeAlias = Literal["none", "old", "new"]

MAX_BATCH_GET = 100
MAX_BATCH_WRITE = 25
MAX_TRANSACTION = 100
MAX_TRANSACTION_BYTES = 4 * 1024 * 1024
MAX_ITEM_BYTES = 400 * 1024
MAX_PAGE_BYTES = 1024 * 1024
MAX_PK_BYTES = 2048
MAX_SK_BYTES = 1024


@dataclass(slots=True)  # not frozen: see above
class Put:
    """Write a whole item, replacing what was there."""

    item: Item
    condition: ConditionBase | None = None
    returns: Returns = "none"  # "new" is not offered: the caller has it


@dataclass(slots=True)  # not frozen: see above
class Patch:
    """Change attributes of an item, creating it when absent."""

    key: Key
    update: Update
    condition: ConditionBase | None = None
    returns: Returns = "none"


@dataclass(slots=True)  # not frozen: see above
class Delete:
    """Remove an item; it need not exist."""

    key: Key
    condition: ConditionBase | None = None
    returns: Returns = "none"


@dataclass(slots=True)  # not frozen: see above
class Check:
    """A condition of a transaction on an item that it does not write."""

    key: Key
    condition: ConditionBase


Write: TypeAlias = Union[Put, Patch, Delete]  # noqa: UP007 - used at run time on Python 3.10
TransactWrite: TypeAlias = Union[Put, Patch, Delete, Check]  # noqa: UP007


@dataclass(slots=True)  # not frozen: see above
class Outcome:
    """The result of one write of :meth:`Engine.apply_many`.

    - ``applied``: it is durable; ``image`` is what its ``returns`` asked for.
    - ``refused``: its condition did not hold; ``image`` is the stored item.
    - ``unprocessed``: it was not tried or was throttled; nothing was written; send it again.
    - ``uncertain``: its answer was lost; it may have been applied.
    - ``failed``: it can never succeed as it is; ``error`` says why; nothing was written.
    """

    status: Literal["applied", "refused", "unprocessed", "uncertain", "failed"]
    image: Item | None = None
    error: Exception | None = None


class IncompleteWrite(TableError):
    """A bulk write gave up.

    Each write is in one list: ``written``, ``unwritten`` (it may be sent again as it is) or
    ``uncertain`` (its answer was lost).
    """

    def __init__(self, writes: Sequence[Write], outcomes: Sequence[Outcome]):
        self.written: list[Write] = []
        self.unwritten: list[Write] = []
        self.uncertain: list[Write] = []
        lists = {"applied": self.written, "uncertain": self.uncertain}
        for write, outcome in zip(writes, outcomes, strict=True):
            lists.get(outcome.status, self.unwritten).append(write)
        # What can never succeed says more than what was throttled beside it.
        errors = [o.error for o in outcomes if o.status == "failed"]
        errors += [o.error for o in outcomes if o.status != "refused"]
        cause = next(filter(None, errors), None)
        super().__init__(
            f"{len(self.written)} operations were written, {len(self.unwritten)} were not, "
            f"{len(self.uncertain)} are uncertain: {cause or 'the table kept throttling them'}"
        )
        self.__cause__ = cause


def is_full(error: Exception) -> bool:
    """Whether a write failed because its partition cannot grow any more."""
    if isinstance(error, IncompleteWrite):
        return isinstance(error.__cause__, CollectionFull)
    if isinstance(error, TransactionCancelled):
        reasons = [reason for reason in error.reasons if reason is not None]
        return any(reason.code is RefusalCode.COLLECTION_FULL for reason in reasons)
    return isinstance(error, CollectionFull)


def is_too_large(error: Exception) -> bool:
    """Whether a write failed because an item with its copies in indexes would pass 400 KB."""
    if isinstance(error, IncompleteWrite):
        return isinstance(error.__cause__, ItemTooLarge)
    if isinstance(error, TransactionCancelled):
        reasons = [reason for reason in error.reasons if reason is not None]
        return any(reason.code is RefusalCode.ITEM_TOO_LARGE for reason in reasons)
    return isinstance(error, ItemTooLarge)


@dataclass(slots=True)  # not frozen: see above
class Query:
    """One page of a partition, of the table or of an index.

    ``where`` is a ``Key(...)`` condition on the sort key of the table or index (eq, lt, lte, gt,
    gte, between, begins_with). ``filter`` is judged after the page is cut: a page ends after
    ``limit`` items *read* or 1 MB *read*, so an empty page with a cursor is not the end.
    ``keys_only`` asks for key attributes only. Without it a local index returns whole items,
    whatever it carries, and a global index returns what it carries.
    """

    partition: str
    where: ConditionBase | None = None
    index: str | None = None
    descending: bool = False
    limit: int | None = None
    cursor: str | None = None
    filter: ConditionBase | None = None
    keys_only: bool = False
    consistent: bool = True  # global indexes ignore it: they never are


@dataclass(frozen=True)
class Scan:
    """One page of the whole table, in no particular order. Only for upkeep and export."""

    segment: int = 0
    segments: int = 1
    limit: int | None = None
    cursor: str | None = None
    filter: ConditionBase | None = None


@dataclass(slots=True)  # not frozen: see above
class Page:
    """Items read, and the cursor of the next page. Only ``cursor is None`` means the end."""

    items: list[Item]
    cursor: str | None = None


@dataclass(slots=True)  # not frozen: see above
class Got:
    """The items that a batch read found; ``unprocessed`` keys were not read, ask for them again."""

    items: dict[Key, Item] = field(default_factory=dict)
    unprocessed: list[Key] = field(default_factory=list)


class Engine(Protocol):
    """What every engine does. Every method may raise ``Throttled``, ``Unavailable``,
    ``AccessDenied``, ``TableMissing`` and ``InvalidRequest`` besides the errors it names.

    All methods may be called from many threads at once.
    """

    schema: Schema
    capabilities: Capabilities

    @property
    def uri(self) -> str:
        """The URI that opens this table again, without credentials."""

    def prepare(self, *, create: bool) -> None:
        """Make sure the table exists and has our schema.

        With ``create`` an absent table is created, and this waits until it is usable. Without it,
        raises ``TableMissing``. Raises ``SchemaMismatch`` for a table that is not ours.
        """

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        """The item at a key, or None."""

    def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> Got:
        """Up to 100 items by different keys. Absent items are not in the answer."""

    def apply(self, write: Write) -> Item | None:
        """Do one write and return the image its ``returns`` asks for.

        Raises ``ConditionFailed`` with the old item, ``ItemTooLarge``, ``CollectionFull``.
        """

    def apply_many(self, writes: Sequence[Write]) -> list[Outcome]:
        """Do many writes independently and in any order; return their outcomes in the given one.

        Not atomic. No key may be named twice. An error of a single write is not raised: it is in
        its :class:`Outcome`.
        """

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        """Do up to 100 writes and checks on different keys, all or none.

        Within ten minutes a second call with the same token and writes does nothing. Raises
        ``TransactionCancelled``; its reasons carry the old items.
        """

    def query(self, query: Query) -> Page:
        """One page. Raises ``InvalidRequest`` for a cursor of another kind of query."""

    def scan(self, scan: Scan) -> Page:
        """One page of one segment; together the segments hold each item once."""

    def close(self) -> None:
        """Release files, connections and threads. It may be called twice."""


# --- what only some engines offer ---------------------------------------------------------------


class LocalEngine(Protocol):
    """An engine in the caller's process: a call that failed was not applied."""

    expiry_clock: Callable[[], float] | None
    """Set by the table. Writes do not see an item that has expired by this clock."""

    def apply_in_order(self, writes: Sequence[Write], then: Sequence[Write]) -> list[Outcome]:
        """Do ``writes``, and in the same request ``then`` if all of ``writes`` were applied.

        Outcomes are those of :meth:`Engine.apply_many`. Writes that were not begun have none.
        """


class Damage(NamedTuple):
    """Something in a table that cannot be read, or not be found by an index."""

    key: Key | None  # of the item, if it is known
    why: str
    is_lost: bool = True  # False: the item itself can be read

    def __str__(self) -> str:
        return self.why if self.key is None else f"{self.key.sk} in {self.key.pk}: {self.why}"


OnDamage: TypeAlias = Callable[[Damage], None]


class Inspectable(Protocol):
    """An engine whose storage can be damaged under it."""

    def check_file(self) -> list[str]:
        """What is wrong with the file, a sentence each; nothing in a sound one."""

    def readable_items(self, on_damage: OnDamage) -> Iterator[Item]:
        """All items that can be read and pass their checks; ``on_damage`` gets the others."""


Redate: TypeAlias = Callable[[str, Sequence[tuple[str, str]], Sequence[str], int | None], None]
"""Sets or removes the ``ttl`` of a partition's items in some ranges, and of those with some sort
keys, without reading the items."""

Observer: TypeAlias = Callable[[str, Mapping[str, Any], Mapping[str, Any]], None]
"""Called with the name of an operation, the answer to it and the request."""


class Observable(Protocol):
    """An engine whose server reports what each request consumed."""

    observer: Observer | None


class TableState(NamedTuple):
    """The settings of a table; None where the endpoint does not report one."""

    expires_items: bool | None
    recovers: bool | None
    protected: bool | None
    endpoint_time: float | None


@dataclass(frozen=True)
class Capabilities:
    """What an engine offers beyond :class:`Engine`; None stands for what it does not.

    A wrapper drops the operations that would bypass it.
    """

    waits_on_network: bool = False  # several reads at once are faster
    spread: int = 1  # how many volumes every experiment has from the start
    collection_share: Callable[[str], float | None] | None = None
    """How full a partition was by the last write to it, of what it can hold; None if unknown.

    An engine without it has no limit.
    """
    local: LocalEngine | None = None
    redate: Redate | None = None
    observable: Observable | None = None
    inspectable: Inspectable | None = None
    state: Callable[[], TableState] | None = None
