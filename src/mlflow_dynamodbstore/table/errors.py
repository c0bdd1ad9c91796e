"""The errors of a table, the same for all engines.

An engine raises only these, and the layers above catch only these. One module turns them into an
``MlflowException``: :mod:`mlflow_dynamodbstore.shared.mlflow_errors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from mlflow_dynamodbstore.table.values import Item, Key


class TableError(Exception):
    """The base of all errors that a table raises."""


class ConditionFailed(TableError):
    """The condition of a single write did not hold; nothing was written.

    ``old`` is the stored item, or None, so that the caller need not read it again.
    """

    def __init__(self, message: str = "the condition did not hold", old: Item | None = None):
        super().__init__(message)
        self.old = old


class RefusalCode(str, Enum):
    """The reasons for which an operation of a transaction is refused."""

    CONDITION_FAILED = "ConditionFailed"
    CONFLICT = "Conflict"
    ITEM_TOO_LARGE = "ItemTooLarge"
    COLLECTION_FULL = "CollectionFull"
    THROTTLED = "Throttled"


class Refusal:
    """Why one operation of a transaction was refused."""

    def __init__(self, code: RefusalCode, message: str = "", old: Item | None = None):
        self.code = code
        self.message = message
        self.old = old

    def __repr__(self) -> str:
        return f"Refusal({self.code.value!r})"


class TransactionCancelled(TableError):
    """A transaction wrote nothing.

    ``reasons`` has one entry for each operation, in the order given: ``None`` for an operation
    that was not to blame, otherwise a :class:`Refusal`.
    """

    def __init__(self, reasons: Sequence[Refusal | None]):
        named = ", ".join(
            f"operation {n}: {r.code.value}" for n, r in enumerate(reasons) if r is not None
        )
        super().__init__(f"the transaction was cancelled ({named or 'no reason given'})")
        self.reasons = list(reasons)

    @property
    def only_conflicts(self) -> bool:
        """Whether trying again unchanged may succeed."""
        codes = {r.code for r in self.reasons if r is not None}
        return bool(codes) and codes <= {RefusalCode.CONFLICT, RefusalCode.THROTTLED}

    def refused(self, operation: int) -> bool:
        """Whether the condition of an operation, counted from 0, did not hold."""
        reason = self.reasons[operation]
        return reason is not None and reason.code is RefusalCode.CONDITION_FAILED

    def old(self, operation: int) -> Item | None:
        """The item that an operation was refused for, as it stood then."""
        reason = self.reasons[operation]
        return None if reason is None else reason.old

    @property
    def too_large(self) -> bool:
        """Whether an operation would have made its item larger than 400 KB."""
        return any(r is not None and r.code is RefusalCode.ITEM_TOO_LARGE for r in self.reasons)

    @property
    def any_refused(self) -> bool:
        """Whether the condition of any operation did not hold."""
        return any(self.refused(n) for n in range(len(self.reasons)))


class Throttled(TableError):
    """The table asked for fewer requests; nothing was written."""


class ItemTooLarge(TableError):
    """An item is larger than 400 KB; nothing was written."""


class CollectionFull(TableError):
    """A partition has reached the limit that local indexes set (10 GB on AWS)."""


class Unavailable(TableError):
    """No answer came (network, timeout, server fault).

    ``maybe_applied`` tells whether a write may have taken effect.
    """

    def __init__(self, message: str, *, maybe_applied: bool = False):
        super().__init__(message)
        self.maybe_applied = maybe_applied


class InvalidRequest(TableError):
    """The request itself is wrong (a value of an unknown type, an empty key, a key too long)."""


class BadTableURI(TableError):
    """A table URI is wrong; the message shows a right one."""


class TableMissing(TableError):
    """There is no such table; the message names the command that creates it."""


class SchemaMismatch(TableError):
    """The table or file exists and is not ours."""


class NewerItem(TableError):
    """An item was written by a newer release, in a form that this one does not know."""


class Damaged(TableError):
    """What is stored cannot be read; ``key`` is that of the damaged item, where it is known."""

    def __init__(self, message: str, key: Key | None = None):
        super().__init__(message)
        self.key = key


RESCUE = (
    "take it from a backup, or save everything else with `dump --skip-damaged` and load that into "
    "a new table"
)


def damaged_item(pk: str, sk: str, part: str = "") -> Damaged:
    """The error for an item that cannot be read, or for a part of it."""
    what = f"{part} in the item" if part else "the item"
    return Damaged(f"{what} {sk!r} in {pk!r} is damaged: {RESCUE}", Key(pk, sk))


class AccessDenied(TableError):
    """The credentials are missing, expired or not allowed to do this."""
