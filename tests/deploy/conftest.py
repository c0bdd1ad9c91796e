"""moto, in a process of its own, as AWS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.deploy.aws import REGION
from tests.engines import moto_server


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with moto_server() as address:
        yield address


@pytest.fixture(scope="module", autouse=True)
def _credentials() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("AWS_ACCESS_KEY_ID", "test")
        patched.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patched.setenv("AWS_DEFAULT_REGION", REGION)
        yield
