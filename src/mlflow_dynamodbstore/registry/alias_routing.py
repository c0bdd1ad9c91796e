"""Which of its two versions a weighted alias gives to whom.

With a routing key the answer depends on the key alone: whoever comes again with it gets the same
version, and raising the weight only moves further keys over to the second version. Without a key
each question is answered by chance.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mlflow_dynamodbstore.registry.items import Target

ROUTING = "MLFLOW_ALIAS_ROUTING"
"""Environment variable: ``off`` gives everybody the first version."""
OFF = ("off", "false", "no", "0")
ROUTING_KEY = "MLFLOW_ALIAS_ROUTING_KEY"
"""Environment variable: the routing key where no other is set."""

_key: ContextVar[str | None] = ContextVar("alias routing key", default=None)


@contextmanager
def routing_key(key: str | None) -> Iterator[None]:
    """Let weighted aliases be answered for this key inside the block, in this thread or task."""
    token = _key.set(key)
    try:
        yield
    finally:
        _key.reset(token)


def chosen_version(target: Target, name: str, alias: str) -> int:
    """The version that an alias leads to this time."""
    if target.secondary is None or os.environ.get(ROUTING, "").strip().lower() in OFF:
        return target.version
    key = _key.get() or os.environ.get(ROUTING_KEY) or None
    place = random.randrange(100) if key is None else place_of_key(key, name, alias)
    return target.secondary if place < target.weight else target.version


def place_of_key(key: str, name: str, alias: str) -> int:
    """Where a key stands among 100; keys below the weight get the second version."""
    digest = hashlib.sha256(f"{name}\0{alias}\0{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % 100
