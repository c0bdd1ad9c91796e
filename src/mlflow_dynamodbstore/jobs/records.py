"""Jobs as they lie in the table, and as MLflow shows them.

Params, result and details are JSON texts of any length, so they are stored as large values.
"""

from __future__ import annotations

import json
from typing import Any

from mlflow_dynamodbstore.keys import jobs as job_keys
from mlflow_dynamodbstore.mlflow_compat.jobs import (
    Job,
    JobProgress,
    JobStatus,
    job_status,
    make_job,
)
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.table.contract import Delete
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key

PARAMS, RESULT, DETAILS = "params", "result", "details"
LARGE = (PARAMS, RESULT, DETAILS)
INLINE = 16 * 1024  # lists read whole items, so longer texts have items of their own
FINAL = tuple(status for status in JobStatus if JobStatus.is_finalized(status))
OPEN = tuple(status for status in JobStatus if not JobStatus.is_finalized(status))


def stored(key: Key, name: str, text: str) -> large_values.Stored:
    """A text of any length, as it is written to a job."""
    return large_values.store(key, name, text, inline=INLINE)


def in_status(order: str, status: JobStatus) -> Item:
    """The attributes that say in which status a job is; ``order`` sorts jobs by age.

    It is the id of a job that was created here.
    """
    return {"status": status.value, "lsi1sk": job_keys.lsi1_job(order, status.value)}


def status_of(item: Item) -> JobStatus:
    """The status of a job."""
    return job_status(item["status"])


def details_of(table: Table, item: Item) -> dict[str, Any] | None:
    """The status details that a job reported."""
    text = large_values.load(table, item, DETAILS)
    return None if text is None else json.loads(text)


def job_of(table: Table, item: Item) -> Job:
    """A job as MLflow shows it."""
    progress = item.get("progress")
    return make_job(
        job_id=item["job_id"],
        creation_time=item["created"],
        job_name=item["name"],
        params=large_values.load(table, item, PARAMS),
        timeout=item.get("timeout"),
        status=status_of(item),
        result=large_values.load(table, item, RESULT),
        retry_count=item["retries"],
        last_update_time=item["updated"],
        workspace=job_keys.jobs_workspace_of(str(item["PK"])),
        status_details=details_of(table, item),
        creator=item.get("creator"),
        executor_backend=item.get("backend"),
        lease_expires_at=item.get("lease_until"),
        status_message=item.get("message"),
        progress=None if progress is None else JobProgress.from_dict(progress),
        progress_updated_at=item.get("progress_at"),
    )


def removals(item: Item) -> list[Delete]:
    """The deletes of all parts of a job's long texts."""
    return [delete for name in LARGE for delete in large_values.removal(item, name)]
