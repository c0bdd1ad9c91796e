"""The range of sort keys that a query asks for."""

from __future__ import annotations

from typing import Any, NamedTuple

from boto3.dynamodb import conditions as boto
from boto3.dynamodb.conditions import ConditionBase

from mlflow_dynamodbstore.table.contract import MAX_SK_BYTES
from mlflow_dynamodbstore.table.errors import InvalidRequest
from mlflow_dynamodbstore.table.request_checks import check_text

_LAST = 0x10FFFF
_BEFORE_SURROGATES = 0xD7FF
_AFTER_SURROGATES = "\ue000"


class Bound(NamedTuple):
    """One end of a range, and whether a key equal to it is inside."""

    text: str
    inside: bool


class Range(NamedTuple):
    """Sort keys between two bounds; None is no bound."""

    low: Bound | None = None
    high: Bound | None = None


EVERYTHING = Range()


def range_of(where: ConditionBase | None, attribute: str) -> Range:
    """The range that a ``Key(...)`` condition describes. Raises ``InvalidRequest``."""
    if where is None:
        return EVERYTHING
    subject, *values = where._values  # noqa: SLF001 - its public form is a new dictionary
    if not isinstance(subject, boto.AttributeBase) or subject.name != attribute:
        raise InvalidRequest(f"the range of this query must be a condition on Key({attribute!r})")
    if not all(type(value) is str for value in values):
        raise InvalidRequest(
            f"the sort key {attribute!r} is a string and can be compared only with strings"
        )
    build = _BUILDERS.get(type(where))
    if build is None:
        raise InvalidRequest(f"{type(where).__name__} cannot be a condition on a sort key")
    for value in values:
        if value or build is not _prefix:  # everything begins with nothing
            check_text(value, "sort key", MAX_SK_BYTES)
    found: Range = build(*values)
    return found


def after_cursor(wanted: Range, sort_key: str, *, descending: bool) -> Range:
    """The range without the bound that a cursor at this sort key makes needless.

    SQLite starts from one bound only. If it had both, it might start from the range's own and walk
    over every page already read.
    """
    low, high = wanted
    if descending:
        passed = high is not None and (
            sort_key < high.text or (high.inside and sort_key == high.text)
        )
        return Range(low, None) if passed else wanted
    passed = low is not None and (sort_key > low.text or (low.inside and sort_key == low.text))
    return Range(None, high) if passed else wanted


def _equal(text: str) -> Range:
    return Range(Bound(text, True), Bound(text, True))


def _between(low: str, high: str) -> Range:
    if low > high:
        raise InvalidRequest(f"the range from {low!r} to {high!r} ends before it begins")
    return Range(Bound(low, True), Bound(high, True))


def _prefix(prefix: str) -> Range:
    after = _after(prefix)
    return Range(Bound(prefix, True), None if after is None else Bound(after, False))


def _after(prefix: str) -> str | None:
    """The first text after all that begin with a prefix, or None."""
    head = prefix.rstrip(chr(_LAST))
    if not head:
        return None
    last = ord(head[-1])
    following = _AFTER_SURROGATES if last == _BEFORE_SURROGATES else chr(last + 1)
    return head[:-1] + following


_BUILDERS: dict[type[ConditionBase], Any] = {
    boto.Equals: _equal,
    boto.LessThan: lambda text: Range(high=Bound(text, False)),
    boto.LessThanEquals: lambda text: Range(high=Bound(text, True)),
    boto.GreaterThan: lambda text: Range(low=Bound(text, False)),
    boto.GreaterThanEquals: lambda text: Range(low=Bound(text, True)),
    boto.Between: _between,
    boto.BeginsWith: _prefix,
}
