"""A pytest plugin for busy machines: where MLflow's tests wait, seconds are longer.

A test that gives a server 15 seconds to start fails on a busy machine, on either side. In the
modules below, which read the clock for nothing but waiting, it runs slower. One counts how often
it has slept instead, and sleeps longer.
"""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace
from typing import Any

SLOWER = 6
MODULES = (
    "tests.server.auth.test_auth",
    "tests.server.jobs.helpers",
    "tests.server.jobs.test_endpoint",
    "tests.server.jobs.test_genai_evaluate_invocation",
    "tests.server.jobs.test_scorer_invocation",
    "tests.server.test_init",
    "tests.tracing.test_distributed",
    "tests.tracking.integration_test_utils",
)
COUNTING_MODULE = "tests.tracing.test_distributed"


def pytest_collection_finish() -> None:
    """Give the modules, which are imported by now, the slow clock."""
    start = time.time()

    def slow_time() -> float:
        return start + (time.time() - start) / SLOWER

    def long_sleep(seconds: float) -> None:
        time.sleep(seconds * SLOWER)

    for name in MODULES:
        if name in sys.modules:
            changed: dict[str, Any] = {"time": slow_time}
            if name == COUNTING_MODULE:
                changed["sleep"] = long_sleep
            vars(sys.modules[name])["time"] = SimpleNamespace(**{**vars(time), **changed})
