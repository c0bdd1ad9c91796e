"""Running jobs: claims, leases, retries and results."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.environment_variables import (
    MLFLOW_SERVER_JOB_TRANSIENT_ERROR_MAX_RETRIES,
    MLFLOW_SERVER_JOB_TRANSIENT_ERROR_RETRY_BASE_DELAY,
    MLFLOW_SERVER_JOB_TRANSIENT_ERROR_RETRY_MAX_DELAY,
)
from mlflow.exceptions import MlflowException
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.jobs.records import OPEN, in_status, job_of
from mlflow_dynamodbstore.jobs.status_changes import Change, StatusChanges, to_pending
from mlflow_dynamodbstore.mlflow_compat.jobs import (
    NEEDS_RECOVERY,
    Job,
    JobStatus,
    JobUpdateStatus,
)
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.table.update import Update

_logger = logging.getLogger(__name__)

PENDING, RUNNING = JobStatus.PENDING, JobStatus.RUNNING
LOST = NEEDS_RECOVERY


@dataclass(frozen=True)
class Runner:
    """The runner that starts jobs: its process, and how long a job is its own unless renewed."""

    process: str
    lease_seconds: float


class JobRuns:
    """Claiming jobs, retrying them and reporting their results."""

    def __init__(
        self,
        context: Context,
        changes: StatusChanges,
        queue: str | None = None,
        runner: Runner | None = None,
    ) -> None:
        self.context = context
        self.table = context.table
        self.changes = changes
        self.queue = queue
        self.runner = runner

    # --- beginning ------------------------------------------------------------------------------

    def claim_job(self, job_id: str, lease_duration: float | None = None) -> JobUpdateStatus:
        change = Change([PENDING], _to_running(job_id, lease_duration), self._is_due())
        return self.changes.try_change(job_id, change)

    def start_job(self, job_id: str) -> None:
        update = _to_running(job_id, None)
        if self.runner is not None:
            update = _to_running(job_id, self.runner.lease_seconds)
            update = replace(update, set={**update.set, "runner": self.runner.process})
        self.changes.must_change(job_id, "start", Change([PENDING], update, self._is_due()))

    def renew_job_lease(self, job_id: str, lease_duration: float) -> JobUpdateStatus:
        if lease_duration is None:
            raise MlflowException.invalid_parameter_value(
                "`lease_duration` must be provided when renewing a job lease."
            )
        update = Update(set={"lease_until": _lease_end(lease_duration)})
        return self.changes.try_change(job_id, Change([RUNNING], update))

    def _is_due(self) -> ConditionBase:
        """A job that failed is not tried again before its next attempt is due."""
        now = self.context.now_ms()
        return Attr("next_attempt").not_exists() | Attr("next_attempt").lte(now)

    # --- trying again ---------------------------------------------------------------------------

    def mark_job_needs_recovery(self, job_id: str) -> JobUpdateStatus:
        """Give a job up. Its process may still run until this runner has ended."""
        changes = in_status(job_id, LOST)
        if self.queue is not None:
            changes["queue"] = self.queue
        if self.runner is not None:
            changes["runner"] = self.runner.process
        update = Update(set=changes, remove=("lease_until",))
        return self.changes.try_change(job_id, Change([RUNNING], update))

    def reattach_job(self, job_id: str, lease_duration: float | None = None) -> JobUpdateStatus:
        update = _to_running(job_id, lease_duration)
        update = replace(update, remove=(*update.remove, "runner"))
        return self.changes.try_change(job_id, Change([LOST], update))

    def requeue_job(self, job_id: str) -> JobUpdateStatus:
        return self.changes.try_change(job_id, Change([LOST], to_pending(job_id)))

    def reset_job(self, job_id: str) -> None:
        self.changes.must_change(job_id, "reset", Change(OPEN, to_pending(job_id)))

    def retry_job(self, job_id: str) -> int:
        change = Change([RUNNING], replace(to_pending(job_id), add={"retries": 1}))
        return int(self.changes.must_change(job_id, "retry", change)["retries"])

    def retry_or_fail_job(self, job_id: str, error: str) -> int | None:
        retries = int(self.changes.existing_job(job_id)["retries"]) + 1
        if retries > MLFLOW_SERVER_JOB_TRANSIENT_ERROR_MAX_RETRIES.get():
            self.changes.end(job_id, "fail", [RUNNING], JobStatus.FAILED, error)
            return None
        due = int((self.table.clock() + _delay(retries)) * 1000)
        # Only the runner of a job retries it, so no other call changes this count.
        update = to_pending(job_id, retries=retries, next_attempt=due)
        self.changes.must_change(job_id, "fail", Change([RUNNING], update))
        return retries

    # --- ending ---------------------------------------------------------------------------------

    def report_job_result(
        self,
        job_id: str,
        status: JobStatus,
        result: str | None = None,
        error_message: str | None = None,
        is_transient_error: bool = False,
    ) -> None:
        del is_transient_error  # the caller decides on a retry
        payload = _payload(job_id, status, result, error_message)
        self.changes.end(job_id, "report result", [RUNNING, LOST], status, payload)

    def finish_job(self, job_id: str, result: str) -> None:
        self.changes.end(job_id, "finish", OPEN, JobStatus.SUCCEEDED, result)

    def fail_job(self, job_id: str, error: str) -> None:
        self.changes.end(job_id, "fail", OPEN, JobStatus.FAILED, error)

    def mark_job_timed_out(self, job_id: str) -> None:
        self.changes.end(job_id, "time out", OPEN, JobStatus.TIMEOUT, None)

    def cancel_job(self, job_id: str) -> Job:
        item = self.changes.end(job_id, "cancel", OPEN, JobStatus.CANCELED, None)
        return job_of(self.table, item)


def _to_running(job_id: str, lease_duration: float | None) -> Update:
    """The change after which a job runs, with a lease or without."""
    if lease_duration is None:
        return Update(set=in_status(job_id, RUNNING), remove=("lease_until",))
    return Update(set={**in_status(job_id, RUNNING), "lease_until": _lease_end(lease_duration)})


def _lease_end(lease_duration: float) -> int:
    if not math.isfinite(lease_duration) or lease_duration <= 0:
        raise MlflowException.invalid_parameter_value(
            "`lease_duration` must be a finite positive number."
        )
    return int(get_current_time_millis() + lease_duration * 1000)


def _delay(retries: int) -> float:
    """Seconds until a job is tried again: twice as many each time, up to a limit."""
    first: float = MLFLOW_SERVER_JOB_TRANSIENT_ERROR_RETRY_BASE_DELAY.get()
    longest: float = MLFLOW_SERVER_JOB_TRANSIENT_ERROR_RETRY_MAX_DELAY.get()
    return min(first * 2.0 ** (retries - 1), longest)


def _payload(
    job_id: str, status: JobStatus, result: str | None, error_message: str | None
) -> str | None:
    """The result or error to keep; raises when it does not fit the reported status."""
    if not JobStatus.is_finalized(status):
        raise MlflowException.invalid_parameter_value(
            "`report_job_result()` requires a terminal JobStatus."
        )
    if status == JobStatus.SUCCEEDED:
        if error_message is not None:
            raise MlflowException.invalid_parameter_value(
                "Succeeded job results must leave `error_message` unset."
            )
        return result
    if status == JobStatus.FAILED and (error_message is None or result is not None):
        raise MlflowException.invalid_parameter_value(
            "Failed job results must set `error_message` and leave `result` unset."
        )
    if status == JobStatus.TIMEOUT and result is not None:
        raise MlflowException.invalid_parameter_value(
            "Timed-out job results must leave `result` unset; `error_message` is optional."
        )
    if status == JobStatus.CANCELED:
        if result is not None or error_message is not None:
            _logger.warning("The payload of the canceled job %s is not kept.", job_id)
        return None
    return error_message
