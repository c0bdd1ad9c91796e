"""What all parts of the job store share: finding a job, and moving it from status to status.

A job moves by one conditional write, so of several who try only one succeeds. A refused write
brings the item back, which tells why without another read.
"""

from __future__ import annotations

from collections.abc import Sequence

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.entities._job import Job
from mlflow.entities._job_status import JobStatus
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE, RESOURCE_DOES_NOT_EXIST
from mlflow.store.jobs.abstract_store import JobUpdateStatus
from mlflow.store.workspace_aware_mixin import WorkspaceAwareMixin
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.jobs.records import RESULT, in_status, job_of, status_of, stored
from mlflow_dynamodbstore.keys import jobs as job_keys
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.table.contract import Delete
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key, Value

PASSING = ("lease_until", "message", "progress", "progress_at", "next_attempt")
"""What is known of a job only while it is being run."""


class JobsBase(WorkspaceAwareMixin):
    """The table of a job store, and the one way in which jobs change."""

    table: Table

    def _key(self, job_id: str) -> Key:
        return job_keys.job_key(job_id, self._get_active_workspace())

    def _job_item(self, job_id: str) -> Item:
        return self.table.get(self._key(job_id)) or _not_found(job_id)

    def _job(self, item: Item) -> Job:
        return job_of(self.table, item)

    def _change(
        self,
        job_id: str,
        statuses: Sequence[JobStatus],
        update: Update,
        condition: ConditionBase | None = None,
    ) -> Item:
        """Change a job that is in one of these statuses. Raises ``ConditionFailed`` for others."""
        allowed = Attr("status").is_in([status.value for status in statuses])
        changed = Update(
            set={**update.set, "updated": get_current_time_millis()},
            add=update.add,
            remove=update.remove,
        )
        try:
            item = self.table.update(
                self._key(job_id),
                changed,
                condition=allowed if condition is None else allowed & condition,
                returns="new",
            )
        except ConditionFailed as refused:
            if refused.old is None:
                _not_found(job_id)
            raise
        assert item is not None
        return item

    def _try(
        self,
        job_id: str,
        statuses: Sequence[JobStatus],
        update: Update,
        condition: ConditionBase | None = None,
    ) -> JobUpdateStatus:
        """Change a job, or say that its status did not allow it."""
        try:
            self._change(job_id, statuses, update, condition)
        except ConditionFailed:
            return JobUpdateStatus.WRONG_STATE
        return JobUpdateStatus.APPLIED

    def _must(
        self,
        job_id: str,
        action: str,
        statuses: Sequence[JobStatus],
        update: Update,
        condition: ConditionBase | None = None,
    ) -> Item:
        """Change a job, or refuse in MLflow's words."""
        try:
            return self._change(job_id, statuses, update, condition)
        except ConditionFailed as refused:
            raise _not_allowed(job_id, action, statuses, status_then(refused)) from refused

    def _end(
        self,
        job_id: str,
        action: str,
        statuses: Sequence[JobStatus],
        status: JobStatus,
        payload: str | None,
    ) -> Item:
        """Bring a job to its final status, with a result or an error."""
        key = self._key(job_id)
        result = large_values.Stored({}) if payload is None else stored(key, RESULT, payload)
        self.table.write(result.parts)
        try:
            return self._must(
                job_id,
                action,
                statuses,
                Update(set={**in_status(job_id, status), **result.attributes}, remove=PASSING),
            )
        except MlflowException:
            self.table.write([Delete(self.table.schema.key_of(part.item)) for part in result.parts])
            raise


def status_then(refused: ConditionFailed) -> JobStatus:
    """The status for which a change was refused."""
    assert refused.old is not None  # or `_change` had said that there is no such job
    return status_of(refused.old)


def waiting(job_id: str, **more: Value) -> Update:
    """The change by which a job waits to be run, with nothing left of an earlier try."""
    changes = {**in_status(job_id, JobStatus.PENDING), **more}
    return Update(
        set=changes, remove=tuple(name for name in (*PASSING, RESULT) if name not in changes)
    )


def _not_found(job_id: str) -> Item:
    raise MlflowException(f"Job with ID {job_id} not found", RESOURCE_DOES_NOT_EXIST)


def _not_allowed(
    job_id: str, action: str, statuses: Sequence[JobStatus], status: JobStatus
) -> MlflowException:
    if JobStatus.is_finalized(status):
        return MlflowException(
            f"The Job {job_id} is already finalized with status: {status}, it can't be updated.",
            INVALID_PARAMETER_VALUE,
        )
    wanted = ", ".join(allowed.name for allowed in statuses)
    return MlflowException(
        f"Job {job_id} is in {status} state, cannot {action} (must be {wanted})",
        INVALID_PARAMETER_VALUE,
    )
