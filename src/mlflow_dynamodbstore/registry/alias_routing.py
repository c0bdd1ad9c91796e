"""Which of its two versions a weighted alias leads to.

With a routing key the answer depends on the key alone: the same key gets the same version, and
raising the weight only moves further keys to the second version. Without a key each answer is
random.
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
"""Environment variable: with ``off``, every alias leads to its first version."""
OFF = ("off", "false", "no", "0")
ROUTING_KEY = "MLFLOW_ALIAS_ROUTING_KEY"
"""Environment variable: the routing key where :func:`routing_key` sets none."""

_key: ContextVar[str | None] = ContextVar("alias routing key", default=None)


@contextmanager
def routing_key(key: str | None) -> Iterator[None]:
    """Route weighted aliases by this key inside the block, in this thread or task."""
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
    bucket = random.randrange(100) if key is None else bucket_of(key, name, alias)
    return target.secondary if bucket < target.weight else target.version


def bucket_of(key: str, name: str, alias: str) -> int:
    """Which of 100 buckets a key is in; those below the weight get the second version."""
    digest = hashlib.sha256(f"{name}\0{alias}\0{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % 100
