"""A pytest plugin: write the outcome of each test to the file that ``OUTCOMES`` names, as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


class Outcomes:
    """What became of each test: passed, failed or skipped, and the end of its message."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: dict[str, tuple[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the first outcome of a test that is not "passed"."""
        outcome, _ = self.outcomes.get(report.nodeid, ("passed", ""))
        if outcome == "passed":
            message = "" if report.passed else str(report.longrepr)[-2000:]
            self.outcomes[report.nodeid] = (report.outcome, message)

    def pytest_sessionfinish(self) -> None:
        """Write the outcomes."""
        self.path.write_text(json.dumps(self.outcomes, indent=0, sort_keys=True), "utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Record where the reports of all processes arrive."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(Path(os.environ["OUTCOMES"])), "outcomes-of-tests")
