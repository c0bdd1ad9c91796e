"""An engine whose items are not upgraded when they are read, for copying a table."""

from __future__ import annotations

from dataclasses import replace

from mlflow_dynamodbstore.table.contract import Engine
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.table.versions import Versions
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine


class AsStoredEngine(WrappedEngine):
    """Lets a table read items of every version, even of one that this release does not know."""

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner)
        self.schema = replace(inner.schema, versions=_Untouched())
        inspectable = inner.capabilities.inspectable
        self.capabilities = replace(self.capabilities, inspectable=inspectable)


class _Untouched(Versions):
    """Upgrades nothing."""

    def read(self, pk: str, sk: str, item: Item) -> Item:  # noqa: ARG002
        return item
