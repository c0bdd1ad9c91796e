"""A tracking store on a file whose global indexes lag, and a passphrase for secrets."""

from __future__ import annotations

import pytest

from tests.lagging import other, store, time

__all__ = ["other", "store", "time"]


@pytest.fixture(autouse=True)
def passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_CRYPTO_KEK_PASSPHRASE", "a passphrase for tests")
