"""Running a job: claiming it, leases, retries, and its end."""

from __future__ import annotations

import logging
import math

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.entities._job import Job
from mlflow.entities._job_status import JobStatus
from mlflow.environment_variables import (
    MLFLOW_SERVER_JOB_TRANSIENT_ERROR_MAX_RETRIES,
    MLFLOW_SERVER_JOB_TRANSIENT_ERROR_RETRY_BASE_DELAY,
    MLFLOW_SERVER_JOB_TRANSIENT_ERROR_RETRY_MAX_DELAY,
)
from mlflow.exceptions import MlflowException
from mlflow.store.jobs.abstract_store import JobUpdateStatus
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.jobs.base import JobsBase, waiting
from mlflow_dynamodbstore.jobs.records import OPEN, in_status
from mlflow_dynamodbstore.table.update import Update

_logger = logging.getLogger(__name__)

PENDING, RUNNING = JobStatus.PENDING, JobStatus.RUNNING
LOST = JobStatus.NEEDS_RECOVERY


class Running(JobsBase):
    """What the runners of jobs do with them."""

    # --- beginning ------------------------------------------------------------------------------

    def claim_job(self, job_id: str, lease_duration: float | None = None) -> JobUpdateStatus:
        return self._try(job_id, [PENDING], _run(job_id, lease_duration), self._is_due())

    def start_job(self, job_id: str) -> None:
        self._must(job_id, "start", [PENDING], _run(job_id, None), self._is_due())

    def renew_job_lease(self, job_id: str, lease_duration: float) -> JobUpdateStatus:
        if lease_duration is None:
            raise MlflowException.invalid_parameter_value(
                "`lease_duration` must be provided when renewing a job lease."
            )
        until = _lease_end(lease_duration)
        return self._try(job_id, [RUNNING], Update(set={"lease_until": until}))

    def _is_due(self) -> ConditionBase:
        """That a job which failed is not tried again before its time."""
        now = int(self.table.clock() * 1000)
        return Attr("next_attempt").not_exists() | Attr("next_attempt").lte(now)

    # --- again ----------------------------------------------------------------------------------

    def mark_job_needs_recovery(self, job_id: str) -> JobUpdateStatus:
        update = Update(set=in_status(job_id, LOST), remove=("lease_until",))
        return self._try(job_id, [RUNNING], update)

    def reattach_job(self, job_id: str, lease_duration: float | None = None) -> JobUpdateStatus:
        return self._try(job_id, [LOST], _run(job_id, lease_duration))

    def requeue_job(self, job_id: str) -> JobUpdateStatus:
        return self._try(job_id, [LOST], waiting(job_id))

    def reset_job(self, job_id: str) -> None:
        self._must(job_id, "reset", OPEN, waiting(job_id))

    def retry_job(self, job_id: str) -> int:
        again = waiting(job_id)
        update = Update(set=again.set, add={"retries": 1}, remove=again.remove)
        return int(self._must(job_id, "retry", [RUNNING], update)["retries"])

    def retry_or_fail_job(self, job_id: str, error: str) -> int | None:
        most = MLFLOW_SERVER_JOB_TRANSIENT_ERROR_MAX_RETRIES.get()
        retries = int(self._job_item(job_id)["retries"]) + 1
        if retries > most:
            self._end(job_id, "fail", [RUNNING], JobStatus.FAILED, error)
            return None
        due = int((self.table.clock() + _delay(retries)) * 1000)
        # Only who runs a job retries it, so nobody counts beside us.
        self._must(job_id, "fail", [RUNNING], waiting(job_id, retries=retries, next_attempt=due))
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
        del is_transient_error  # whoever reports it decides on a retry
        payload = _payload(job_id, status, result, error_message)
        self._end(job_id, "report result", [RUNNING, LOST], status, payload)

    def finish_job(self, job_id: str, result: str) -> None:
        self._end(job_id, "finish", OPEN, JobStatus.SUCCEEDED, result)

    def fail_job(self, job_id: str, error: str) -> None:
        self._end(job_id, "fail", OPEN, JobStatus.FAILED, error)

    def mark_job_timed_out(self, job_id: str) -> None:
        self._end(job_id, "time out", OPEN, JobStatus.TIMEOUT, None)

    def cancel_job(self, job_id: str) -> Job:
        return self._job(self._end(job_id, "cancel", OPEN, JobStatus.CANCELED, None))


def _run(job_id: str, lease_duration: float | None) -> Update:
    """The change by which a job runs, with a lease or without."""
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
    """What is kept of a report, which must fit the status it reports."""
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
