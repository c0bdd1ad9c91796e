"""An engine that passes every call to the engine inside it."""

from __future__ import annotations

from collections.abc import Sequence

from mlflow_dynamodbstore.table.contract import (
    Capabilities,
    Engine,
    Got,
    Outcome,
    Page,
    Query,
    Scan,
    TransactWrite,
    Write,
)
from mlflow_dynamodbstore.table.values import Item, Key


class WrappedEngine:
    """Passes every call on; a wrapper overrides the calls that it changes."""

    def __init__(self, inner: Engine) -> None:
        self.inner = inner
        self.schema = inner.schema
        # The other capabilities would bypass the wrapper.
        offered = inner.capabilities
        self.capabilities = Capabilities(
            offered.waits_on_network, offered.spread, offered.collection_share
        )

    @property
    def uri(self) -> str:
        return self.inner.uri

    def prepare(self, *, create: bool) -> None:
        self.inner.prepare(create=create)

    def get(self, key: Key, *, consistent: bool = True) -> Item | None:
        return self.inner.get(key, consistent=consistent)

    def get_many(self, keys: Sequence[Key], *, consistent: bool = True) -> Got:
        return self.inner.get_many(keys, consistent=consistent)

    def apply(self, write: Write) -> Item | None:
        return self.inner.apply(write)

    def apply_many(self, writes: Sequence[Write]) -> list[Outcome]:
        return self.inner.apply_many(writes)

    def transact(self, writes: Sequence[TransactWrite], token: str) -> None:
        self.inner.transact(writes, token)

    def query(self, query: Query) -> Page:
        return self.inner.query(query)

    def scan(self, scan: Scan) -> Page:
        return self.inner.scan(scan)

    def close(self) -> None:
        self.inner.close()
