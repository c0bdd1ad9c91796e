"""Several processes on one table."""

from __future__ import annotations

import json
import os
from collections import Counter

import pytest

from mlflow_dynamodbstore.table.contract import Query
from tests.table.suite.samples import walk
from tests.table.workers import start

PROCESSES = 4
INCREMENTS = int(os.environ.get("TABLE_TEST_INCREMENTS", "2000"))
OVER_A_NETWORK = INCREMENTS // 4  # each takes much longer there
SHARED_ITEMS = 8


@pytest.mark.requires("parallel_processes")
def test_four_processes_lose_no_increment(engine):
    """Four processes that add to shared items, each on condition, lose nothing between them."""
    times = OVER_A_NETWORK if engine.capabilities.waits_on_network else INCREMENTS
    workers = [
        start("increment", engine.uri, f"{SHARED_ITEMS}", f"{times}", f"{seed}")
        for seed in range(PROCESSES)
    ]
    done: Counter[str] = Counter()
    for worker in workers:
        answer, _ = worker.communicate()
        assert worker.returncode == 0
        done.update(json.loads(answer))
    assert done.total() == PROCESSES * times
    assert {one["SK"]: one["n"] for one in walk(engine, Query("shared"))} == dict(done)
