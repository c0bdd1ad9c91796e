"""Locks that keep two jobs from running at the same time, as MLflow's second engine wants them.

A lock outlives a crash of its job: it is void once the job is known not to run, or after its
timeout and some more.
"""

from __future__ import annotations

from mlflow.exceptions import MlflowException

from mlflow_dynamodbstore.jobs.leases import Lease, Leases
from mlflow_dynamodbstore.jobs.records import status_of
from mlflow_dynamodbstore.jobs.status_changes import StatusChanges
from mlflow_dynamodbstore.mlflow_compat.jobs import JobStatus
from mlflow_dynamodbstore.shared.context import Context

LOCK = "lock "
TIMEOUT_FACTOR = 1.15
VOID = (JobStatus.PENDING, JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.TIMEOUT)
"""Of a canceled job the process may still be about to end, so its lock holds."""


class JobLocks:
    """Exclusive locks of jobs."""

    def __init__(self, context: Context, changes: StatusChanges, leases: Leases) -> None:
        self.context = context
        self.table = context.table
        self.changes = changes
        self.leases = leases

    def acquire(self, lock_key: str, job_id: str) -> Lease | None:
        """Lock a key for a job in the current workspace; None if another job holds it."""
        timeout = self.changes.existing_job(job_id).get("timeout")
        if timeout is None:
            raise MlflowException.invalid_parameter_value(
                "Exclusive job locks require non-null timeout."
            )
        name, seconds = LOCK + lock_key, float(timeout) * TIMEOUT_FACTOR
        acquired = self.leases.acquire(name, job_id, seconds)
        if acquired is not None:
            return acquired
        held = self.leases.find(name)
        if held is not None and not self._is_void(held):
            return None
        return self.leases.acquire(name, job_id, seconds, instead_of=held)

    def release(self, lock_key: str, job_id: str, acquired: int) -> None:
        """Give a lock up that a job acquired at a millisecond, unless it has lost it since."""
        self.leases.release(Lease(LOCK + lock_key, job_id, acquired, until=0))

    def _is_void(self, lock: Lease) -> bool:
        """Whether the job that holds a lock is known not to run. Keys differ by workspace."""
        item = self.table.get(self.changes.key(lock.holder))
        return item is None or status_of(item) in VOID
