"""A pytest plugin: write the outcome of each test to the file that ``OUTCOMES`` names, as JSON."""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

OPENS = "opens a database or starts a process"


class Outcomes:
    """What became of each test: passed, failed or skipped, the end of its message, what it opened.

    A test that opens no database and starts no process has nothing to do with a store.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: dict[str, tuple[str, str, bool]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the first outcome of a test that is not "passed"."""
        outcome, message, opens = self.outcomes.get(report.nodeid, ("passed", "", False))
        if outcome == "passed":
            outcome, message = report.outcome, "" if report.passed else str(report.longrepr)[-2000:]
        opens = opens or (OPENS, True) in report.user_properties
        self.outcomes[report.nodeid] = (outcome, message, opens)

    def pytest_sessionfinish(self) -> None:
        """Write the outcomes."""
        self.path.write_text(json.dumps(self.outcomes, indent=0, sort_keys=True), "utf-8")


class Opened:
    """Notes which tests open a database or start a process."""

    def __init__(self) -> None:
        self.noted = False
        sqlalchemy.create_engine = self._noting(sqlalchemy.create_engine)
        made: Any = subprocess.Popen
        made.__init__ = self._noting(made.__init__)

    def _noting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def noting(*args: Any, **kwargs: Any) -> Any:
            self.noted = True
            return function(*args, **kwargs)

        return noting

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Forget what the test before has opened."""
        del item
        self.noted = False
        return (yield)  # type: ignore[return-value]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        """Let the report of each phase say what has been opened so far."""
        if self.noted and (OPENS, True) not in item.user_properties:
            item.user_properties.append((OPENS, True))
        return (yield)  # type: ignore[return-value]


def pytest_configure(config: pytest.Config) -> None:
    """Record where the reports of all processes arrive, and note where the tests run."""
    config.pluginmanager.register(Opened(), "what-tests-open")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(Path(os.environ["OUTCOMES"])), "outcomes-of-tests")
