"""How keys are described: the forms they take, and what an item is by its key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mlflow_dynamodbstore.table.values import Item, Key


class Pattern(NamedTuple):
    """One form that a key attribute takes.

    In ``text``, ``<...>`` is a piece and ``[...]`` is optional.
    """

    attribute: str
    text: str
    entity: str
    function: Callable[..., str | Key | dict[str, str]]
    arguments: tuple[str | int | float, ...] = ()

    @property
    def example(self) -> str:
        """What the function makes of the arguments."""
        made = self.function(*self.arguments)
        if isinstance(made, Key):
            return made.pk if self.attribute == "PK" else made.sk
        return made if isinstance(made, str) else made[self.attribute]


@dataclass(frozen=True)
class Anatomy:
    """What one item is.

    ``owners`` are the items it hangs on, the outermost first. ``owner_id`` is the id of the run,
    trace or logged model that it is or belongs to, where there is one. A search entry
    (``text_field`` for one of full text) must also be what its run says of itself. A part of a
    large value belongs to the item at ``head``, which must name its ``generation``.
    """

    entity: str
    owners: tuple[Key, ...] = ()
    owner_id: str | None = None
    run: Key | None = None
    text_field: str | None = None
    head: Key | None = None
    generation: str = ""

    @property
    def is_search_entry(self) -> bool:
        """Whether it is an entry by which a run is found."""
        return self.run is not None

    @property
    def is_name_entry(self) -> bool:
        """Whether it is a full-text entry of a name."""
        return self.run is None and self.text_field is not None


Reader = Callable[[str, list[str], Item], Anatomy | None]
"""Tells what an item is from its partition key, the words of its sort key, and itself."""


@dataclass(frozen=True)
class Area:
    """The keys of one part of the system: their forms, and how their items are recognised.

    ``partitions`` are found by the first word of a partition key; ``in_experiment`` and
    ``in_workspace`` by the first word of a sort key within these partitions.
    """

    patterns: tuple[Pattern, ...]
    partitions: Mapping[str, Reader] = field(default_factory=dict)
    in_experiment: Mapping[str, Reader] = field(default_factory=dict)
    in_workspace: Mapping[str, Reader] = field(default_factory=dict)
