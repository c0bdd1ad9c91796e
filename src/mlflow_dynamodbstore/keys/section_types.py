"""How a section of the keys describes what its items are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from mlflow_dynamodbstore.keys.base import key_text
from mlflow_dynamodbstore.table.values import Item, Key


@dataclass(frozen=True)
class ItemDescription:
    """What kind of item this is, and which items it belongs to.

    ``owners`` are the items that must exist for it to be of use, the outermost first.
    ``owner_id`` is the id of the run, trace or logged model that it is or belongs to, if any. A
    search entry names its ``run``, and a full-text entry its ``text_field``. A part of a large
    value belongs to the item at ``head``, which must name its ``generation``.
    """

    kind: str
    owners: tuple[Key, ...] = ()
    owner_id: str | None = None
    run: Key | None = None
    text_field: str | None = None
    head: Key | None = None
    generation: str = ""

    @property
    def is_search_entry(self) -> bool:
        """Whether a search finds a run by it."""
        return self.run is not None

    @property
    def is_name_entry(self) -> bool:
        """Whether it is a full-text entry of a name."""
        return self.run is None and self.text_field is not None


Describer = Callable[[str, list[str], Item], ItemDescription | None]
"""Describes an item from its partition key, the words of its sort key, and the item itself."""


def described(
    kind: str | None, *owners: Key, owner_id: str | None = None
) -> ItemDescription | None:
    """The description of an item with owners; None where the kind is not known."""
    return None if kind is None else ItemDescription(kind, owners, owner_id)


def id_without_prefix(prefix: str, piece: str) -> str | None:
    """The id in a piece of a key, without its prefix, so that it tells when it was made."""
    text = key_text(piece)
    return None if text is None else text.removeprefix(prefix)


@dataclass(frozen=True)
class KeySection:
    """What the items of one part of the system are.

    ``partitions`` maps the first word of a partition key to the describer of its items;
    ``in_experiment`` and ``in_workspace`` map the first word of a sort key in such a partition.
    """

    partitions: Mapping[str, Describer] = field(default_factory=dict)
    in_experiment: Mapping[str, Describer] = field(default_factory=dict)
    in_workspace: Mapping[str, Describer] = field(default_factory=dict)
