"""Tags as attributes of the item that they belong to, and as items of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from mlflow.prompt.constants import IS_PROMPT_TAG_KEY

from mlflow_dynamodbstore.shared.names.attributes import named
from mlflow_dynamodbstore.shared.names.revisions import Change
from mlflow_dynamodbstore.shared.plain_values import optional_text
from mlflow_dynamodbstore.table.contract import Delete, Put
from mlflow_dynamodbstore.table.values import Item, Key, Value

TAG = "t:"
"""Before the key of a tag whose value is the attribute's."""
LONG_TAG = "T:"
"""Before the key of a tag whose value is in an item of its own only."""
MAX_INLINE_TAG = 1024

Tags = Mapping[str, "str | None"]


class TagStore(NamedTuple):
    """How the tags of one item are laid out: as its attributes, and as items of their own.

    ``limit`` is how many bytes of tags may be attributes. A tag that is long or beyond the limit is
    an item; with ``all_apart`` the others are items too.
    """

    key_of: Callable[[str], Key]
    limit: int
    all_apart: bool

    def setting(self, item: Item, tags: Tags) -> Change:
        """What setting tags changes of an item as it stands, and beside it."""
        change = Change()
        size = sum(_size(n, v) for n, v in item.items() if n.startswith(TAG) and n[2:] not in tags)
        for key, value in tags.items():
            own = _size(TAG + key, value)
            # Reading the item alone must tell whether it is a prompt.
            has_room = size + own <= self.limit or key == IS_PROMPT_TAG_KEY
            inline = has_room and _size("", value) <= MAX_INLINE_TAG
            if inline:
                size += own
                change.set[TAG + key] = value
            else:
                change.set[LONG_TAG + key] = True
            other = (LONG_TAG if inline else TAG) + key
            if other in item:
                change.remove.append(other)
            if not inline or self.all_apart:
                change.writes.append(Put(self._item(key, value)))
            elif other in item:
                change.writes.append(Delete(self.key_of(key)))
        return change

    def removing(self, item: Item, key: str) -> Change | None:
        """What removing a tag changes, or None when there is no such tag."""
        found = [name for name in (TAG + key, LONG_TAG + key) if name in item]
        if not found:
            return None
        change = Change(remove=found)
        if self.all_apart or LONG_TAG + key in found:
            change.writes.append(Delete(self.key_of(key)))
        return change

    def _item(self, key: str, value: str | None) -> Item:
        return {**named(self.key_of(key), "key", key), "value": value}


def as_texts(tags: Iterable[tuple[str, object]]) -> dict[str, str | None]:
    """Tags by key, with the last value of each; numbers become text, other types are refused."""
    # A missing key is left to MLflow's own check, for its message.
    return {
        optional_text(key, "the key of a tag"): optional_text(value, "a tag") for key, value in tags
    }


def _size(name: str, value: Value) -> int:
    return len(name.encode()) + (0 if value is None else len(value.encode()))
