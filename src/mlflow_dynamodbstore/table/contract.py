"""The contract between a table and its engines.

An *engine* speaks to one storage (DynamoDB, or a SQLite file) in requests of the size DynamoDB
takes. It does no retries and knows no clock. :class:`~mlflow_dynamodbstore.table.table.Table`,
written once, stands on an engine and adds what both need: splitting, retrying, TTL, recognising a
write whose answer was lost. Wrappers (metering, faults, slow-call log) are engines around engines.

Conditions are ``boto3.dynamodb.conditions`` objects: ``Attr(...)`` for conditions and filters,
``Key(<sort key attribute>)`` for the range of a query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, Union

from boto3.dynamodb.conditions import ConditionBase

from mlflow_dynamodbstore.table.errors import TableError
from mlflow_dynamodbstore.table.schema import Schema
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

# Writes and their outcomes are made by the thousand. They are not to be changed once made, but are
# not frozen either: that would quadruple the time to make one.

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
    """Remove an item; removing what is not there is no error."""

    key: Key
    condition: ConditionBase | None = None
    returns: Returns = "none"


@dataclass(slots=True)  # not frozen: see above
class Check:
    """In a transaction: a condition on an item that is not itself written."""

    key: Key
    condition: ConditionBase


Write: TypeAlias = Union[Put, Patch, Delete]  # noqa: UP007 - used at run time on Python 3.10
TransactWrite: TypeAlias = Union[Put, Patch, Delete, Check]  # noqa: UP007


@dataclass(slots=True)  # not frozen: see above
class Outcome:
    """What became of one write of :meth:`Engine.apply_many`.

    - ``applied``: it is durable; ``image`` as its ``returns`` asked.
    - ``refused``: its condition did not hold; ``image`` is the item as it stood.
    - ``unprocessed``: it was not tried or was throttled; nothing was written; send it again.
    - ``uncertain``: its answer was lost; it may have been applied.
    - ``failed``: it can never succeed as it is; ``error`` says why; nothing was written.
    """

    status: Literal["applied", "refused", "unprocessed", "uncertain", "failed"]
    image: Item | None = None
    error: Exception | None = None


class IncompleteWrite(TableError):
    """A bulk write gave up before its end.

    Each write is in exactly one list: ``written``, ``unwritten`` (it may be sent again as it is) or
    ``uncertain`` (its answer was lost).
    """

    def __init__(self, writes: Sequence[Write], outcomes: Sequence[Outcome]):
        self.written: list[Write] = []
        self.unwritten: list[Write] = []
        self.uncertain: list[Write] = []
        lists = {"applied": self.written, "uncertain": self.uncertain}
        cause = None
        for write, outcome in zip(writes, outcomes, strict=True):
            lists.get(outcome.status, self.unwritten).append(write)
            if outcome.status != "refused":
                cause = cause or outcome.error
        super().__init__(
            f"{len(self.written)} operations were written, {len(self.unwritten)} were not, "
            f"{len(self.uncertain)} are uncertain: {cause or 'the table kept refusing them'}"
        )
        self.__cause__ = cause


@dataclass(slots=True)  # not frozen: see above
class Query:
    """One page of a partition, of the table or of an index.

    ``where`` is a ``Key(...)`` condition on the sort key of the table or index (eq, lt, lte, gt,
    gte, between, begins_with). ``filter`` is judged after the page is cut: a page ends after
    ``limit`` items *read* or 1 MB *read*, so an empty page with a cursor is not the end.
    ``keys_only`` asks for key attributes only. A local index returns whole items all the same
    when ``keys_only`` is false, whatever it carries; a global index returns what it carries.
    """

    partition: str
    where: ConditionBase | None = None
    index: str | None = None
    descending: bool = False
    limit: int | None = None
    cursor: str | None = None
    filter: ConditionBase | None = None
    keys_only: bool = False
    consistent: bool = True  # ignored by global indexes, which cannot


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
    """Items read, and where to go on. ``cursor is None`` means the end, nothing else does."""

    items: list[Item]
    cursor: str | None = None


@dataclass(slots=True)  # not frozen: see above
class Got:
    """What a batch read found; ``unprocessed`` keys were not looked at and may be asked again."""

    items: dict[Key, Item] = field(default_factory=dict)
    unprocessed: list[Key] = field(default_factory=list)


class Engine(Protocol):
    """What a storage must do. Every method may raise ``Throttled``, ``Unavailable``,
    ``AccessDenied``, ``TableMissing`` and ``InvalidRequest`` beside those it names.

    All methods may be called from many threads at once.
    """

    schema: Schema
    capabilities: Capabilities

    @property
    def uri(self) -> str:
        """The URI that opens this table again, without credentials."""

    def prepare(self, *, create: bool) -> None:
        """Make sure the table exists and has our schema.

        With ``create`` an absent table is created, waiting until it is usable; without it, raises
        ``TableMissing``. Raises ``SchemaMismatch`` for a table that is not ours.
        """

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        """The item at a key, or None."""

    def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> Got:
        """Up to 100 items, keys not repeated. Absent items are simply not in the answer."""

    def apply(self, write: Write) -> Item | None:
        """Do one write and return the image its ``returns`` asks for.

        Raises ``ConditionFailed`` with the old item, ``ItemTooLarge``, ``CollectionFull``.
        """

    def apply_many(self, writes: Sequence[Write]) -> list[Outcome]:
        """Do many writes, each on its own, and tell for each what became of it, in order.

        Not atomic. No key is named twice. No order among them is promised. Never raises for a
        single write: see :class:`Outcome`.
        """

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        """Do up to 100 writes and checks on different keys, all or none.

        Called again with the same token and the same writes (within ten minutes) it does nothing
        the second time. Raises ``TransactionCancelled``; its reasons carry the old items.
        """

    def query(self, query: Query) -> Page:
        """One page. Raises ``InvalidRequest`` for a cursor that is not of this query's shape."""

    def scan(self, scan: Scan) -> Page:
        """One page of everything, in segments that together hold each item once."""

    def close(self) -> None:
        """Let go of files, connections and threads. Calling it twice is fine."""


# --- what only some engines offer ---------------------------------------------------------------


class LocalEngine(Protocol):
    """An engine in the caller's process, which a table calls without precautions.

    A call that failed was not applied, so nothing has to be retried or recognised.
    """

    expiry_clock: Callable[[], float] | None
    """Set by the table. A write does not see an item that has expired by this clock."""

    def apply_in_order(self, writes: Sequence[Write], then: Sequence[Write]) -> list[Outcome]:
        """Do ``writes``, and in the same request ``then`` if all of ``writes`` were applied.

        Otherwise as :meth:`Engine.apply_many`. Writes that were not begun have no outcome.
        """


class Redating(Protocol):
    """An engine that changes the expiry of items without reading them."""

    def redate(self, partition: str, ranges: Sequence[tuple[str, str]], ttl: int | None) -> None:
        """Let the items in these ranges of sort keys, both ends included, expire at ``ttl``."""


Observer: TypeAlias = Callable[[str, Mapping[str, Any]], None]
"""Called with the name of an operation and the answer to it."""


class Observable(Protocol):
    """An engine that is told by its server what each request consumed."""

    observer: Observer | None


class TableState(NamedTuple):
    """How a table is set up, as its endpoint says; None where the endpoint does not say."""

    expires_items: bool | None
    recovers: bool | None
    protected: bool | None
    endpoint_time: float | None


class Inspectable(Protocol):
    """An engine whose table has settings of its own."""

    def state(self) -> TableState:
        """The settings. Raises ``TableMissing``."""


@dataclass(frozen=True)
class Capabilities:
    """What an engine offers beyond :class:`Engine`; None is what it does not offer.

    A wrapper passes on only what does not go around it.
    """

    waits_on_network: bool = False  # several reads at once are faster
    local: LocalEngine | None = None
    redating: Redating | None = None
    observable: Observable | None = None
    inspectable: Inspectable | None = None
