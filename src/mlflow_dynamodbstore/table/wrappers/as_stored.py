"""An engine whose items stay in the version they were written in, for those who move them."""

from __future__ import annotations

from dataclasses import replace

from mlflow_dynamodbstore.table.contract import Engine
from mlflow_dynamodbstore.table.values import Item
from mlflow_dynamodbstore.table.versions import Versions
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine


class AsStoredEngine(WrappedEngine):
    """Lets a table read items of every version, also of one that this release does not know."""

    def __init__(self, inner: Engine) -> None:
        super().__init__(inner)
        self.schema = replace(inner.schema, versions=_Untouched())


class _Untouched(Versions):
    """Knows no form, and therefore changes none."""

    def read(self, pk: str, sk: str, item: Item) -> Item:  # noqa: ARG002 - whatever they are
        return item
