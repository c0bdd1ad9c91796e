"""Copies of versions in META, which save a second read.

META is read for every question about a model. Where the write units that it takes anyway leave
room, it carries the versions that are asked for most: those that aliases lead to, the latest of
each stage, and the newest. Every write to a version changes META in the same transaction, and the
copy with it, so a copy always equals the version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mlflow_dynamodbstore.keys import registry as registry_keys
from mlflow_dynamodbstore.registry.items import COPY
from mlflow_dynamodbstore.registry.records import Model
from mlflow_dynamodbstore.table.contract import MAX_TRANSACTION, Delete, Patch, Put, Write
from mlflow_dynamodbstore.table.sizes import item_size
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item

WRITE_UNIT = 1024
SURELY_TOGETHER = MAX_TRANSACTION - 2
"""How many writes always fit into one transaction with those of META and its guard."""


def copying(
    before: Model, after: Model, writes: Sequence[Write], known: Mapping[int, Item]
) -> Update:
    """What a change of a model does to the copies in META.

    ``writes`` is what is written beside META; ``known`` has versions that were read before it.
    A version that is written after META has no copy.
    """
    contents = {**before.copies, **{n: _contents(item) for n, item in known.items()}}
    for write in writes[:SURELY_TOGETHER]:
        _mirror(contents, write)
    for write in writes[SURELY_TOGETHER:]:
        contents.pop(_version_of(write) or 0, None)
    own = {name: value for name, value in after.item.items() if not name.startswith(COPY)}
    room = -item_size(own) % WRITE_UNIT
    kept: Item = {}
    for number in _by_use(after, contents):
        copy: Item = {f"{COPY}{number}": contents[number]}
        size = item_size(copy)
        if size <= room:
            kept.update(copy)
            room -= size
    gone = [name for name in before.item if name.startswith(COPY) and name not in kept]
    changed = {name: copy for name, copy in kept.items() if before.item.get(name) != copy}
    return Update(set=changed, remove=tuple(gone))


def _mirror(contents: dict[int, Item], write: Write) -> None:
    """Change a copy as a write changes its version."""
    number = _version_of(write)
    if number is None:
        return
    if isinstance(write, Put):
        contents[number] = _contents(write.item)
    elif isinstance(write, Delete):
        contents.pop(number, None)
    elif isinstance(write, Patch) and number in contents:
        contents[number] = write.update.apply(contents[number])


def _version_of(write: Write) -> int | None:
    """The version whose own item is written, if it is one."""
    sk = str(write.item["SK"]) if isinstance(write, Put) else write.key.sk
    number = registry_keys.model_version_of(sk) if sk in registry_keys.MODEL_VERSIONS else 0
    return number if number and sk == registry_keys.model_version(number) else None


def _contents(version: Item) -> Item:
    return {name: value for name, value in version.items() if name not in ("PK", "SK")}


def _by_use(model: Model, available: Mapping[int, Item]) -> Iterator[int]:
    """The versions whose contents are available, the most wanted first."""
    targets = model.aliases.values()
    led_to = [n for to in targets for n in (to.version, to.secondary) if n is not None]
    order = [*led_to, *model.latest.values(), *sorted(available, reverse=True)]
    return (number for number in dict.fromkeys(order) if number in available)
