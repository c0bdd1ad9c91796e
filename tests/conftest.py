"""What every test relies on: no telemetry, and chance that is the same in each run.

With ``STORE_SPREAD=3``, every embedded table spreads its experiments over three volumes unless its
URI says otherwise. With ``STORE_INDEX_LAG=2``, its global indexes show a write two seconds late,
unless a test looks into one at once, or for a run with the id of another store, which one finds.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from mlflow_dynamodbstore.table.embedded.engine import EmbeddedEngine
from tests.places import SPREAD

INDEX_LAG = float(os.environ.get("STORE_INDEX_LAG", "0"))
(EmbeddedEngine.__init__.__kwdefaults__ or {}).update(spread=SPREAD, index_lag=INDEX_LAG)

OF_THE_TABLE = Path(__file__).with_name("table")

# Before anything imports mlflow, which reads it once. Servers started by tests inherit it.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

# "short" tries the same examples every time, so that a red test is red for everybody; "long" looks
# for new ones and keeps what it finds in .hypothesis/. Deadlines are off in both: a busy machine is
# slow, not wrong.
settings.register_profile(
    "short",
    max_examples=50,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "long",
    max_examples=2_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "one_volume(reason): needs experiments that lie in one partition, and says why"
    )
    config.addinivalue_line(
        "markers", "index_at_once: looks into a global index right after a write, so without a lag"
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    random.seed(item.nodeid)  # which volumes a test writes to is chosen at random
    lag = 0.0 if item.get_closest_marker("index_at_once") else INDEX_LAG
    (EmbeddedEngine.__init__.__kwdefaults__ or {}).update(index_lag=lag)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(OF_THE_TABLE):
            item.add_marker("index_at_once")
        marker = item.get_closest_marker("one_volume")
        if marker is not None and SPREAD > 1:
            item.add_marker(pytest.mark.skip(reason=f"one volume: {marker.kwargs['reason']}"))


@pytest.fixture(scope="module", autouse=True)
def _uris_of_mlflow() -> Iterator[None]:
    """The tracking and registry URI that a module sets end with it.

    The servers that they name end too, and MLflow's client asks for minutes until it gives up.
    """
    names = ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI")
    before = {name: os.environ.get(name) for name in names}
    yield
    if (mlflow := sys.modules.get("mlflow")) is not None:
        mlflow.set_tracking_uri(None)
        mlflow.set_registry_uri(None)
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
