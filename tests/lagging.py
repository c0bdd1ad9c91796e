"""Fixtures: a tracking store on a file whose global indexes lag, as two processes see it.

What is tested with these may not depend on a global index, so here they show a write an hour late.
A folder's ``conftest.py`` imports those it wants.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.stores import open_tracking_store
from tests.table.fakes import FakeTime

LAGGING = "synchronous=NORMAL&index_lag=3600"


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def store(tmp_path: Path, time: FakeTime) -> Iterator[DynamoDBTrackingStore]:
    opened = open_tracking_store(tmp_path, time, options=LAGGING)
    yield opened
    opened.table.close()


@pytest.fixture
def other(tmp_path: Path, time: FakeTime) -> Iterator[DynamoDBTrackingStore]:
    """The same data as another process sees it: with none of the store's memories."""
    opened = open_tracking_store(tmp_path, time, options=LAGGING)
    yield opened
    opened.table.close()
