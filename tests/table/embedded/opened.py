"""Engines on fresh files, and small things that the tests of this folder share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlflow_dynamodbstore.table.embedded import EmbeddedEngine
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.values import Item, Key

KEY = Key("p", "s")


def open_file(path: Path, **options: Any) -> EmbeddedEngine:
    """An engine on a file, made when it is absent; relaxed, since power is not cut here."""
    engine = EmbeddedEngine(path, MLFLOW_TABLE, **{"synchronous": "NORMAL"} | options)
    engine.prepare(create=True)
    return engine


def item(pk: str = KEY.pk, sk: str = KEY.sk, **attributes: Any) -> Item:
    return {"PK": pk, "SK": sk, **attributes}
