"""Sorting by MLflow's rules, and page tokens that name a position in the order.

Numbers come before NaN and NaN before missing values, in either direction. A page token holds the
sort values of the last row of a page, not a count of rows: it stays valid while rows are added and
removed, and every row that stays comes exactly once.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from dataclasses import dataclass
from typing import Any

from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE, Searchable

PRESENT, NOT_A_NUMBER, MISSING = 0, 1, 2

Position = tuple[tuple[int, Any], ...]
"""The sort values of a row: for each sort key its class (present, NaN, missing) and its value."""


class Descending:
    """A value that sorts in reverse."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __lt__(self, other: object) -> bool:
        # With anything else it does not compare, as a text does not compare with a number.
        return bool(other.value < self.value) if isinstance(other, Descending) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


@dataclass(frozen=True)
class SortKey:
    """One thing to sort by."""

    kind: str
    name: str
    ascending: bool = True

    def __str__(self) -> str:
        return f"{self.kind}.{self.name} {'ASC' if self.ascending else 'DESC'}"

    def of(self, entity: Searchable) -> tuple[int, Any]:
        """An entity's class and value under this key."""
        values = entity.values(self.kind, self.name)
        if not values:
            return MISSING, 0
        value = values[0]
        if isinstance(value, float) and math.isnan(value):
            return NOT_A_NUMBER, 0
        return PRESENT, value


@dataclass(frozen=True)
class Ordering:
    """A whole order: the keys asked for, and those that decide between equals."""

    keys: tuple[SortKey, ...]

    def position(self, entity: Searchable) -> Position:
        """Where an entity stands."""
        return tuple(key.of(entity) for key in self.keys)

    def comparable(self, position: Position) -> tuple[Any, ...]:
        """A position as something that compares in this order."""
        parts: list[Any] = []
        for key, (presence, value) in zip(self.keys, position, strict=True):
            parts.append(presence)
            if presence == PRESENT:
                parts.append(value if key.ascending else _descending(value))
            else:
                parts.append(0)
        return tuple(parts)

    def bound(self, name: str, first: int, last: int) -> tuple[Any, ...] | None:
        """What comes before every position whose value under ``name`` lies from first to last.

        None if the order does not begin with that.
        """
        key = self.keys[0]
        if key.name != name or key.kind != ATTRIBUTE:
            return None
        return PRESENT, first if key.ascending else _descending(last)

    def has_passed(self, after: Position | None, first: int, last: int) -> bool:
        """Whether a position lies behind all whose first value lies from first to last."""
        if after is None or after[0][0] != PRESENT:
            return False
        time = number_in(after)
        return bool(time > last) if self.keys[0].ascending else bool(time < first)

    def _name(self) -> str:
        return ", ".join(map(str, self.keys))

    def token(self, position: Position) -> str:
        """A page token for the rows after a position."""
        text = json.dumps({"order": self._name(), "after": position})
        return base64.b64encode(text.encode()).decode()

    def after(self, page_token: str | None) -> Position | None:
        """The position a page token names. Raises for anything that is not a token of ours."""
        if not page_token:
            return None
        try:
            parsed = json.loads(base64.b64decode(page_token, validate=True))
            position = tuple(_place(presence, value) for presence, value in parsed["after"])
        except (binascii.Error, ValueError, TypeError, KeyError) as error:
            raise bad_token("could not be decoded") from error
        if parsed.get("order") != self._name() or len(position) != len(self.keys):
            raise bad_token("belongs to another order_by")
        return position


def _place(presence: Any, value: Any) -> tuple[int, Any]:
    """One part of a position in a token. Raises ``ValueError`` for what no token of ours holds."""
    if presence not in (PRESENT, NOT_A_NUMBER, MISSING):
        raise ValueError("no class of values")
    if presence == PRESENT and (value is None or isinstance(value, dict)):
        raise ValueError("no value")
    return int(presence), value


def number_in(position: Position, place: int = 0) -> int | float:
    """The number that a position has at a place. Raises for a token that holds anything else."""
    value = position[place][1]
    if type(value) not in (int, float):
        raise bad_token("holds values of the wrong type")
    number: int | float = value
    return number


def position_after(ordering: Ordering, page_token: str | None) -> Position | None:
    """The position that a page token names; one that is not base64 is refused in MLflow's words."""
    if page_token:
        try:
            base64.b64decode(page_token)
        except (TypeError, binascii.Error) as error:
            raise invalid("Invalid page token, could not base64-decode") from error
    return ordering.after(page_token)


def _descending(value: Any) -> Any:
    return -value if isinstance(value, (int, float)) else Descending(value)


def bad_token(why: str) -> MlflowException:
    """The error for a page token that cannot be used."""
    return invalid(f"Invalid page token: it {why}. Start again without a page token.")
