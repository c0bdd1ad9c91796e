"""Filters, judged in one place for every kind of entity.

A comparison asks an entity for its values under a name, and holds when it holds for one of them.
An entity without a value satisfies IS NULL only: ``x != 'v'`` does not match an entity without x.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mlflow_dynamodbstore.shared.search.like import like

ATTRIBUTE, METRIC, PARAM, TAG, DATASET = "attribute", "metric", "parameter", "tag", "dataset"

_SIMPLE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Searchable(Protocol):
    """An entity that can be filtered and sorted."""

    def values(self, kind: str, name: str) -> Sequence[Any]:
        """What the entity has under a name of a kind; nothing, one value, or several."""


@dataclass(frozen=True)
class Comparison:
    """One term of a filter: all terms must hold."""

    kind: str
    name: str
    comparator: str
    value: Any = None

    def __str__(self) -> str:
        right = "" if self.comparator.endswith("NULL") else f" {self.value!r}"
        return f"{self.kind}.{self.name} {self.comparator}{right}"

    def test(self) -> Callable[[Searchable], bool]:
        """A function that judges an entity by this comparison."""
        kind, name = self.kind, self.name
        if self.comparator == "IS NULL":
            return lambda entity: not entity.values(kind, name)
        if self.comparator == "IS NOT NULL":
            return lambda entity: bool(entity.values(kind, name))
        holds = self.holds()
        return lambda entity: any(holds(value) for value in entity.values(kind, name))

    def holds(self) -> Callable[[Any], bool]:
        """A function that judges one value."""
        wanted = self.value
        if self.comparator in ("LIKE", "ILIKE"):
            return like(wanted, ignore_case=self.comparator == "ILIKE")
        if self.comparator == "RLIKE":
            return _pattern(wanted)
        if self.comparator == "IN":
            return lambda value: value in wanted
        if self.comparator == "NOT IN":
            return lambda value: value not in wanted
        compare = _SIMPLE[self.comparator]
        return lambda value: compare(value, wanted)


def _pattern(text: str) -> Callable[[str], bool]:
    """RLIKE: the regular expression occurs somewhere; an invalid one occurs nowhere."""
    try:
        pattern = re.compile(text)
    except re.error:
        return lambda _: False
    return lambda value: pattern.search(value) is not None


def all_hold(comparisons: Iterable[Comparison]) -> Callable[[Searchable], bool]:
    """A function that tells whether an entity satisfies every comparison."""
    tests = [comparison.test() for comparison in comparisons]
    if not tests:
        return lambda _: True
    return lambda entity: all(test(entity) for test in tests)
