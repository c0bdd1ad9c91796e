"""Searching things by name: which names a filter leaves, listed by the guards of a workspace."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.keys.encoding import is_cut
from mlflow_dynamodbstore.shared.names.attributes import NAME
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE, TAG, Comparison
from mlflow_dynamodbstore.shared.search.like import fixed_prefix
from mlflow_dynamodbstore.shared.search.ordering import Ordering, Position
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key

GUARD_PAGE = 250
PARSED_KEPT = 512
"""How many parsed filters and orders of each kind a process keeps.

Parsing takes longer than most searches, and the same few filters and orders come again and again.
"""


@dataclass(frozen=True)
class Filter:
    """The terms of a filter; all of them must hold."""

    terms: tuple[Comparison, ...]

    @property
    def has_tags(self) -> bool:
        return any(term.kind == TAG for term in self.terms)

    def on(self, name: str) -> list[Comparison]:
        """The terms about an attribute."""
        return [term for term in self.terms if (term.kind, term.name) == (ATTRIBUTE, name)]

    @property
    def needs_list_of_names(self) -> bool:
        """Whether it has a pattern of names, but neither their beginning nor the names."""
        patterns = [term for term in self.on(NAME) if term.comparator in ("LIKE", "ILIKE")]
        begins = any(t.comparator == "LIKE" and fixed_prefix(t.value) for t in patterns)
        return bool(patterns) and not begins and self.exact(NAME) is None

    def exact(self, name: str) -> list[str] | None:
        """The only values that an attribute may have, in order; None when any number may do."""
        terms = self.on(name)
        listed = [
            {t.value} if t.comparator == "=" else {*t.value}
            for t in terms
            if t.comparator in ("=", "IN")
        ]
        if not listed:
            return None
        return sorted(v for v in set.intersection(*listed) if all(t.holds()(v) for t in terms))


class Guards(NamedTuple):
    """How a workspace lists the names of one kind of thing."""

    starting: Callable[[str], Range]
    key: Callable[[str, str], Key]
    name_of: Callable[[Item], str]


class Listed(NamedTuple):
    """A name, with the guard that lists it where that has been read."""

    name: str
    guard: Item | None = None


@dataclass(frozen=True)
class Names:
    """The names that a search looks at, listed by consistent reads.

    ``known`` has the only candidates, where the name index lists them. ``shown`` is how many names
    suffice where the filter leaves nothing out.
    """

    table: Table
    workspace: str
    filter: Filter
    guards: Guards
    known: Collection[str] | None = None
    shown: int | None = None

    def listed(self, ordering: Ordering, after: Position | None) -> Iterator[str]:
        """The names that the filter allows, in the order of the search where it goes by name."""
        return (name for name, _ in self.entries(ordering, after))

    def entries(self, ordering: Ordering, after: Position | None) -> Iterator[Listed]:
        """The same, with the guards that were read for them."""
        first = ordering.keys[0]
        descending = first.name == NAME and not first.ascending
        bound = after[0][1] if after is not None and first.name == NAME else None
        terms = [term.holds() for term in self.filter.on(NAME)]
        exact = self.filter.exact(NAME)
        chosen = self.known if exact is None else exact
        names = (
            self._guarded(descending, bound)
            if chosen is None
            else (Listed(name) for name in sorted(chosen, reverse=descending))
        )
        return (listed for listed in names if all(holds(listed.name) for holds in terms))

    def _guarded(self, descending: bool, bound: Any) -> Iterator[Listed]:
        """Names from the guards, from the bound on where it can be put in a key."""
        starts = [fixed_prefix(t.value) for t in self.filter.on(NAME) if t.comparator == "LIKE"]
        low, high = self.guards.starting(max(starts, key=len, default=""))
        if isinstance(bound, str):
            sk = self.guards.key(bound, self.workspace).sk
            if not is_cut(sk):
                low, high = (low, min(high, sk)) if descending else (max(low, sk), high)
        if low > high:
            return iter(())
        query = Query(
            access_keys.workspace_pk(self.workspace),
            where=Range(low, high).on(),
            descending=descending,
            limit=self._page(),
        )
        return (Listed(self.guards.name_of(guard), guard) for guard in self.table.items(query))

    def _page(self) -> int:
        """How many guards to read at once."""
        if self.shown is None or self.filter.terms:
            return GUARD_PAGE
        return min(self.shown, GUARD_PAGE)
