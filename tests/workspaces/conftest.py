"""A table with one of everything in a workspace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from mlflow.environment_variables import MLFLOW_ENABLE_WORKSPACES, MLFLOW_TRACKING_URI

from tests.stores import open_tracking_store
from tests.table.fakes import FakeTime
from tests.workspaces.everything import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(MLFLOW_ENABLE_WORKSPACES.name, "true")
        tracking = open_tracking_store(tmp_path_factory.mktemp("isolation"), FakeTime())
        # Where MLflow links prompts, it goes by the URI.
        patched.setenv(MLFLOW_TRACKING_URI.name, tracking.table.engine.uri)
        yield World(tracking)
        tracking.table.close()
