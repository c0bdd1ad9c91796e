"""Everything that can go wrong, in one hierarchy.

The five classes under :class:`VersionedError` say what a caller can do about it, and each has its
own exit code on the command line: mend the input, look for something else, decide again, restore
the content, or try later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

from mlflow_dynamodbstore.table import errors as table_errors

P = ParamSpec("P")
R = TypeVar("R")


class VersionedError(Exception):
    """Root of everything this package raises."""


# --- the input is wrong: nothing was read or written ---------------------------------------------


class InvalidInput(VersionedError, ValueError):
    """An argument breaks a rule; the message shows the rule."""


class InvalidName(InvalidInput):
    """The name of an artifact, an alias or a namespace breaks the rule for names."""


class InvalidVersion(InvalidInput):
    """A version is neither a whole number from 1 nor LATEST."""


class InvalidCanary(InvalidInput):
    """The versions or the weight of an alias make no sense together."""


class InvalidMetadata(InvalidInput):
    """Metadata is not a small mapping of text to text."""


class InvalidReference(InvalidInput):
    """A text does not name an artifact, a version or an alias."""


class InvalidCursor(InvalidInput):
    """A cursor is not one that this listing gave."""


class InvalidSource(InvalidInput):
    """What should be stored cannot be read, or is neither a file, a folder, bytes nor a stream."""


class InvalidLocation(InvalidInput):
    """A table or storage URI cannot be understood; the message shows a right one."""


# --- it is not there -----------------------------------------------------------------------------


class NotFound(VersionedError, LookupError):
    """What was asked for does not exist."""


class ArtifactNotFound(NotFound):
    """No artifact has this name."""


class VersionNotFound(NotFound):
    """The artifact has no such version."""


class VersionDeleted(NotFound):
    """The version exists and is deleted; it can be undeleted."""


class AliasNotFound(NotFound):
    """The artifact has no such alias."""


class RevisionNotFound(NotFound):
    """The history of the alias has no such revision."""


# --- somebody or something stands against it -----------------------------------------------------


class Conflict(VersionedError):
    """The repository is not in the state that the call needs; nothing was changed."""


class AliasChanged(Conflict):
    """The alias is not at the expected revision. ``actual`` is the one it is at, 0 for none."""

    def __init__(self, message: str, actual: int):
        super().__init__(message)
        self.actual = actual


class VersionInUse(Conflict):
    """Aliases point at the version; ``aliases`` names them."""

    def __init__(self, message: str, aliases: Sequence[str]):
        super().__init__(message)
        self.aliases = list(aliases)


class NotDeleted(Conflict):
    """Only a deleted version can be purged."""


class NoCanary(Conflict):
    """The alias has no secondary version."""


class ContentChanged(Conflict):
    """The content to be stored changed while it was read, or LATEST is not what was expected."""


class Contended(Conflict):
    """Other writers kept getting ahead of this one; trying again later may succeed."""


# --- the content is damaged ----------------------------------------------------------------------


class Corrupt(VersionedError):
    """The stored content is not what its version says."""


class DigestMismatch(Corrupt):
    """The bytes read do not have the digest of the version."""


class ContentMissing(Corrupt):
    """The bytes of a version are not in the storage."""


# --- the table or the storage cannot be used -----------------------------------------------------


class Unusable(VersionedError):
    """The table or the storage does not do what it should."""


class Unavailable(Unusable):
    """No answer came, or only refusals; trying again later may succeed."""


class AccessDenied(Unusable):
    """Credentials are missing, expired or not allowed to do this."""


class LocationMissing(Unusable):
    """The table, the bucket or the folder does not exist, or is not one of ours."""


# --- storage errors of the table, turned into ours in this one place -----------------------------

_FROM_TABLE: tuple[tuple[type[table_errors.TableError], type[VersionedError]], ...] = (
    (table_errors.Throttled, Unavailable),
    (table_errors.Unavailable, Unavailable),
    (table_errors.AccessDenied, AccessDenied),
    (table_errors.TableMissing, LocationMissing),
    (table_errors.SchemaMismatch, LocationMissing),
    (table_errors.BadTableURI, InvalidLocation),
    (table_errors.TransactionCancelled, Contended),
    (table_errors.TableError, Unusable),
)


def from_table(error: table_errors.TableError) -> VersionedError:
    """Our error for a table's; the original stays its cause."""
    ours = next(ours for theirs, ours in _FROM_TABLE if isinstance(error, theirs))
    if isinstance(error, table_errors.BadTableURI):
        return ours(str(error))
    if isinstance(error, table_errors.TableMissing):
        return ours(
            f"the table could not be used: {_first(error)}. Check where it is, or create it with "
            "`versioned init` or Repository(..., create=True)"
        )
    return ours(f"the table could not be used: {error}")


def _first(error: table_errors.TableError) -> str:
    """What is wrong, without the advice for MLflow's table that follows."""
    return str(error).partition(";")[0]


def speaks_ours(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function of the public face raise nothing but :class:`VersionedError`."""

    @wraps(function)
    def face(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except table_errors.TableError as error:
            raise from_table(error) from error

    return face
