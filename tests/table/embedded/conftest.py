"""Fixtures of the tests that only the embedded engine owes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mlflow_dynamodbstore.table.embedded import EmbeddedEngine
from tests.table.embedded.opened import open_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a table may be made."""
    return tmp_path / "table.ddb"


@pytest.fixture
def opened(path: Path) -> Iterator[Callable[..., EmbeddedEngine]]:
    """Opens engines on the one file, and closes them at the end."""
    engines: list[EmbeddedEngine] = []

    def open_one(**options: Any) -> EmbeddedEngine:
        engines.append(open_file(path, **options))
        return engines[-1]

    yield open_one
    for engine in engines:
        engine.close()


@pytest.fixture
def embedded(opened: Callable[..., EmbeddedEngine]) -> EmbeddedEngine:
    """An engine on a fresh file."""
    return opened()
