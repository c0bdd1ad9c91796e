"""``ttl cleanup`` as a Lambda function, which EventBridge calls on a schedule.

The stack of a table makes the function (:mod:`~mlflow_dynamodbstore.deploy.cleanup_schedule`). A
call ends before its time is up and notes its position; the next one resumes there.
"""

from __future__ import annotations

import json
import logging
import os
from typing import Any, Protocol

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.upkeep.cleanup import GRACE_SECONDS, Cleanup

TABLE = "MLFLOW_TRACKING_URI"
"""The variable that names the table."""
SEGMENTS = 4
RESERVE_MS = int((GRACE_SECONDS + 60) * 1000)
"""Time that is kept for the second check of suspects and for noting the position."""

_logger = logging.getLogger()


class LambdaContext(Protocol):
    """What Lambda tells about a call."""

    def get_remaining_time_in_millis(self) -> int:
        """The time until Lambda ends the call."""


def handler(event: object, context: LambdaContext) -> dict[str, Any]:
    """Clean up the table for as long as the call may take; returns what the command prints."""
    del event

    def is_late() -> bool:
        return context.get_remaining_time_in_millis() < RESERVE_MS

    table = Table(open_engine(os.environ[TABLE], create=False))
    try:
        job = Cleanup(table, segments=SEGMENTS, grace=GRACE_SECONDS, stop=is_late)
        report = job.run()
    finally:
        table.close()
    facts = {
        "read": report.read,
        "found": dict(sorted(report.found.items())),
        "dated": report.dated,
        "removed": report.removed,
        "resumed": report.resumed,
        "finished": report.finished,
    }
    _logger.info("ttl cleanup: %s", json.dumps(facts))
    return facts
