"""Every public method of every store takes bad values as MLflow's SQL stores do.

Each argument in turn gets each of a list of bad values, on both sides. The error codes are the same
or the difference has a reason in ``known_differences.py``. Ours never fails with anything but
MLflow's errors, never says that it broke, is never slow, and a refused call leaves nothing behind.

``make test`` tries one value in a few; ``make fuzz`` tries all of them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
from mlflow.environment_variables import MLFLOW_TRACKING_URI
from mlflow.server.auth import sqlalchemy_store as mlflow_users
from mlflow.utils.crypto import CRYPTO_KEK_PASSPHRASE_ENV_VAR
from werkzeug.security import generate_password_hash

from mlflow_dynamodbstore.auth import passwords, users
from tests.fuzz.comparing import Call, Comparison
from tests.fuzz.known_differences import reason
from tests.fuzz.worlds import KINDS, Ours, Theirs, methods

pytestmark = pytest.mark.hypothesis  # so that `make fuzz` runs it too

SHARE = 1 if os.environ.get("STORE_FUZZ") else 16
"""One bad value in so many is tried."""
GROUPS = 8
"""The tracking store's methods are divided into so many tests."""


@pytest.fixture(scope="module")
def origins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Theirs, Ours]]:
    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patched:
        for module in (mlflow_users, users, passwords):
            patched.setattr(module, "generate_password_hash", _cheap_hash)
        patched.setenv(CRYPTO_KEK_PASSPHRASE_ENV_VAR, "n" * 32)
        # Where MLflow links prompts, it goes by the URI.
        patched.setenv(MLFLOW_TRACKING_URI.name, f"sqlite:///{folder}/linked.db")
        logging.disable(logging.CRITICAL)  # MLflow logs each error of its database at length
        try:
            yield Theirs(folder), Ours(folder)
        finally:
            logging.disable(logging.NOTSET)


def _cheap_hash(password: str) -> str:
    return generate_password_hash(password, "pbkdf2:sha256:1")


def disagreements(origins: tuple[Theirs, Ours], kind: str, names: list[str]) -> list[Call]:
    comparison = Comparison(*origins, kind)
    try:
        calls = list(comparison.calls(names, share=SHARE))
    finally:
        comparison.close()
    assert calls
    return [call for call in calls if call.complaint() and reason(call) is None]


@pytest.mark.parametrize("group", range(GROUPS))
def test_tracking(origins: tuple[Theirs, Ours], group: int) -> None:
    found = disagreements(origins, "tracking", methods("tracking")[group::GROUPS])
    assert not found, "\n".join(map(str, found))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "tracking"])
def test_other_stores(origins: tuple[Theirs, Ours], kind: str) -> None:
    found = disagreements(origins, kind, methods(kind))
    assert not found, "\n".join(map(str, found))
