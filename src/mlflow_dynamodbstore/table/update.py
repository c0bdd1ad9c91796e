"""A change to one item, as an object that both engines read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mlflow_dynamodbstore.table.values import Item, Value


@dataclass(frozen=True)
class Update:
    """Assignments, removals and additions on top-level attributes, applied together.

    An attribute may be named once. ``if_absent`` sets only attributes that are absent; ``add``
    takes whole numbers and starts from zero.
    """

    set: Mapping[str, Value] = field(default_factory=dict)
    if_absent: Mapping[str, Value] = field(default_factory=dict)
    add: Mapping[str, int] = field(default_factory=dict)
    remove: tuple[str, ...] = ()

    @property
    def is_repeatable(self) -> bool:
        """Whether applying it twice equals applying it once."""
        return not self.add

    def apply(self, item: Item) -> Item:
        """The item after this change."""
        after = {name: value for name, value in item.items() if name not in self.remove}
        after.update(self.set)
        for name, value in self.if_absent.items():
            after.setdefault(name, value)
        for name, amount in self.add.items():
            before = after.get(name, 0)
            if not isinstance(before, int) or isinstance(before, bool):
                raise TypeError(f"cannot add to {name!r}: it holds {type(before).__name__}")
            after[name] = before + amount
        return after
