"""The engines that the rows of the documents are read on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.specification.rows import ENGINES, Home, address_of, home_on


@pytest.fixture(scope="module", params=ENGINES)
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where an engine listens; empty for the embedded one."""
    with address_of(request.param) as found:
        yield found


@pytest.fixture
def home(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A new table on each engine, with a store whose requests are recorded."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with home_on(address, tmp_path) as made:
        yield made
